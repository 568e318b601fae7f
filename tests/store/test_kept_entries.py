"""Kept transcripts: each entry once and in order, and nothing of what was forgotten; on both engines."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from engines import Opener

from backstory import ids
from backstory.model import ContentId, Observation, Reply, Report, Session
from backstory.project import Project
from backstory.store import events, forget, kept, sessions, turns
from backstory.store.db import Store, Tx
from backstory.store.forget_rows import Forgotten
from backstory.store.kept import TranscriptEntry, TranscriptKey
from backstory.store.observations import Stored

KEY = b"k" * 32
AT = "2026-01-05T12:00:00.000Z"


def session(store: Store, name: str = "s") -> Session:
    report = Report("claude-code", "session_start", ContentId(name), ids.new_event_id(), AT)
    return store.write(lambda tx: sessions.get_or_create(tx, report, Project("shop", "shop")))


def said(number: int, text: str = "") -> dict[str, Any]:
    content = {"role": "user", "content": text or f"text {number}"}
    return {"type": "user", "uuid": f"uuid-{number}", "timestamp": AT, "message": content}


def append(store: Store, key: TranscriptKey, *entries: dict[str, Any], first: bool = False) -> int:
    made = [TranscriptEntry(entry, nth=0 if first and "uuid" not in entry else None) for entry in entries]
    return store.write(lambda tx: kept.append(tx, key, "file", made, False, KEY))


def load(store: Store, key: TranscriptKey) -> list[Any] | None:
    def read(tx: Tx) -> list[Any] | None:
        found = kept.find(tx, key)
        if found is None:
            return None
        texts, after = list[str](), 0
        while True:
            some, last = kept.page(tx, found.id, after)
            texts += some
            if last is None:
                return [json.loads(text) for text in texts]
            after = last

    return store.read(read)


def test_entries_are_kept_once_and_in_order(store: Store) -> None:
    """By their ids. Those without one are kept as often as they come, unless their place in the file is known."""
    key = TranscriptKey(session(store), "shop")
    mode = {"type": "mode", "mode": "normal"}
    assert append(store, key, said(2), mode, said(1), mode) == 4
    assert append(store, key, said(1), said(3)) == 1
    assert append(store, key, mode, first=True) == 0
    assert load(store, key) == [said(2), mode, said(1), mode, said(3)]
    assert load(store, TranscriptKey(key.session, "other")) is None
    assert load(store, TranscriptKey(key.session, "shop", "subagents/a")) is None


def test_every_character_stays(store: Store) -> None:
    """Null characters, lone surrogates, large numbers, and texts that are longer than a page."""
    key = TranscriptKey(session(store), "shop")
    odd = said(1, "\0 \ud800 \u2028 \U0001f600 ü") | {"n": 2**70, "f": 1e-9}
    long = [said(number, "long " * 300_000) for number in range(2, 5)]
    append(store, key, odd, *long)
    assert load(store, key) == [odd, *long]


def test_many_writers_keep_one_order(store: Store, open_again: Opener) -> None:
    """What one writer adds stays in its order, and an entry that two add is kept once."""
    key = TranscriptKey(session(store), "shop")
    other = open_again()
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda n: append((store, other)[n % 2], key, *(said(i) for i in range(n * 5, n * 5 + 10))), range(12)
            )
        )
    numbers = [int(entry["uuid"].removeprefix("uuid-")) for entry in load(store, key) or []]
    assert sorted(numbers) == list(range(65))
    for n in range(12):
        own = [number for number in numbers if n * 5 <= number < n * 5 + 5]
        assert own == sorted(own)


def test_a_session_and_its_subagents_are_removed_together(store: Store) -> None:
    mine = session(store)
    keys = [TranscriptKey(mine, "shop", subpath) for subpath in ("", "subagents/a", "subagents/b")]
    for key in keys:
        append(store, key, said(1))
    assert store.write(lambda tx: kept.remove(tx, keys[1])) == 1
    assert [each.subpath for each in store.read(lambda tx: kept.of_session(tx, mine.id))] == ["", "subagents/b"]
    assert store.write(lambda tx: kept.remove(tx, keys[0])) == 2
    assert store.read(lambda tx: kept.of_session(tx, mine.id)) == []


def forgotten(store: Store, words: str = "", number: int = 0) -> None:
    def work(tx: Tx) -> None:
        gone = Forgotten(key=KEY)
        if words:
            forget.matching(tx, words, "", gone)
        else:
            forget.session(tx, number, gone)
        forget.finish(tx, gone)

    store.write(work)


def test_i16_a_forgotten_session_is_not_kept_and_neither_is_its_fork(store: Store) -> None:
    """A fork repeats the entries under the same ids."""
    mine, fork, other = (session(store, name) for name in ("mine", "fork", "other"))
    for number, each in enumerate((mine, fork, other)):
        mode = {"type": "mode", "mode": "normal"}  # the same in all three
        append(store, TranscriptKey(each, "shop"), said(1 + number // 2 * 7), said(10 + number), mode)
    forgotten(store, number=mine.id)
    rows = store.read(lambda tx: kept.listed(tx, 0, 10, is_whole=True))
    assert [row["content_session_id"] for row in rows] == ["other"]
    for each in (mine, fork):
        assert append(store, TranscriptKey(each, "shop"), said(20)) == 0
    assert append(store, TranscriptKey(other, "shop"), said(20)) == 1


def test_i16_words_are_forgotten_in_kept_transcripts_too(store: Store) -> None:
    """Even if nothing else has them. Words of different entries are not a match."""
    mine, other = session(store, "mine"), session(store, "other")
    append(store, TranscriptKey(mine, "shop"), said(1, 'The "Heliotrope" is blue'))
    append(store, TranscriptKey(other, "shop"), said(2, "A heliotrope"), said(3, "is blue"))
    forgotten(store, "heliotrope blue")
    assert load(store, TranscriptKey(mine, "shop")) is None
    assert load(store, TranscriptKey(other, "shop")) is not None


def test_i16_a_copy_brings_nothing_back(store: Store) -> None:
    """Another session with the same text at the same time is not kept."""
    mine, copy = session(store, "mine"), session(store, "copy")

    def talk(tx: Tx) -> None:
        number = sessions.add_prompt(tx, mine, "Please mend the heliotrope", AT).number
        turns.add_reply(tx, mine, number, "I mended the heliotrope", AT)

    store.write(talk)
    forgotten(store, number=mine.id)
    key = TranscriptKey(copy, "shop")
    assert append(store, key, said(1, "Something else")) == 1
    assert append(store, key, said(2, "Please mend the heliotrope")) == 0
    assert load(store, key) is None
    assert append(store, key, said(3, "Something else")) == 0


def test_i16_a_forgotten_observation_leaves_the_rest_of_the_transcript(store: Store) -> None:
    """Its sentence and its tool use go from what is kept, also when the same entries come again, from any session."""
    key = TranscriptKey(session(store), "shop")
    text = "The basket is mended. The heliotrope helper was renamed, because its name was misleading."
    given = {"type": "tool_use", "id": "use-1", "name": "Edit", "input": {"new_string": "heliotrope_total"}}
    result = {"type": "tool_result", "tool_use_id": "use-1", "content": "heliotrope edited"}
    entries = [
        said(1),
        said(2) | {"type": "assistant", "message": {"role": "assistant", "content": [given]}},
        said(3) | {"message": {"role": "user", "content": [result]}, "toolUseResult": {"file": "heliotrope"}},
        said(4) | {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}},
    ]
    append(store, key, *entries)

    def work(tx: Tx) -> int:
        number = sessions.add_prompt(tx, key.session, "Mend it", AT).number
        turns.add_reply(tx, key.session, number, text, AT, turns.TurnDetails("uuid-4"))
        edit = Report("claude-code", "tool", ContentId("s"), "e-1", AT, tool_name="Edit", tool_use_id="use-1")
        events.add(tx, key.session, replace(edit, payload={"tool_input": given["input"]}))
        events.close_round(tx, key.session.id)
        return number

    store.write(work)
    claim = store.write(lambda tx: events.claim(tx, 60_000))
    assert claim
    title = "The heliotrope helper was renamed, because its name was misleading"
    seen = Observation("change", title, event_ids=(claim.round.events[0].id,))
    (number,) = store.write(lambda tx: events.finish(tx, claim, Stored(Reply((seen,)), "offline"))).observation_ids

    def run(tx: Tx) -> None:
        gone = Forgotten(key=KEY)
        forget.observation(tx, number, gone)
        forget.finish(tx, gone)
        assert (gone.events, gone.transcripts) == (1, 0)

    store.write(run)
    assert append(store, key, *entries, said(5)) == 1
    other = TranscriptKey(session(store, "copy"), "shop")
    append(store, other, *entries[3:])
    for one, uuids in ((key, [1, 2, 3, 4, 5]), (other, [4])):
        left = load(store, one) or []
        assert [entry["uuid"] for entry in left] == [f"uuid-{each}" for each in uuids]
        assert "heliotrope" not in json.dumps(left) and "The basket is mended." in json.dumps(left)
