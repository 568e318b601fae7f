"""Forgetting by words, and texts that are known again: on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backstory import ids
from backstory.errors import LeaseLost
from backstory.model import ContentId, Kind, Observation, Reply, Report, Session, Summary
from backstory.paths import Paths
from backstory.project import Project
from backstory.store import events, forget, forget_rows, forgotten, queries, sessions, turns
from backstory.store.db import Store, Tx
from backstory.store.index import chunks
from backstory.store.observations import Stored

KEY = b"k" * 32
AT = "2026-01-05T12:00:00.000Z"


def report(kind: Kind, session: str, branch: str | None = None, **payload: Any) -> Report:
    tool = payload.pop("tool", None)
    return Report(
        "claude-code",
        kind,
        ContentId(session),
        ids.new_event_id(),
        AT,
        git_branch=branch,
        tool_name=tool,
        tool_use_id=f"use-{session}" if tool else None,
        payload=payload,
    )


def work(store: Store, session: str, word: str, tool: str = "Edit") -> None:
    """A round in which a word is a part of others, in every place that holds text."""

    def take(tx: Tx) -> Session:
        row = sessions.get_or_create(tx, report("session_start", session), Project("shop", "shop", f"on-{word}branch"))
        number = sessions.add_prompt(tx, row, f"Please mend {word}prompt now", AT).number
        turns.add_reply(tx, row, number, f"I mended {word}reply", AT)
        given = {"file_path": f"/w/{word}file1.py", "old_string": f"{word}old"}
        events.add(tx, row, report("tool", session, tool=tool, tool_input=given, tool_response=f"{word}result"))
        events.add(tx, row, report("stop", session, last_assistant_message=f"I mended {word}reply"))
        chunks.extend(tx, row)
        events.close_round(tx, row.id)
        return row

    store.write(take)
    claim = store.write(lambda tx: events.claim(tx, 60_000))
    assert claim
    seen = Observation(
        "change",
        f"The title has{word}inside",
        subtitle=f"sub{word}title",
        narrative=f"It was {word}narrated",
        facts=(f"A {word}fact",),
        concepts=(f"{word}concept",),
        files_read=(f"/w/{word}read.py",),
        files_modified=(f"/w/{word}file1.py",),
        event_ids=(claim.round.events[0].id,),
    )
    summary = Summary(f"{word}request", "", f"{word}learned", f"{word}completed", f"{word}next", f"{word}notes")
    store.write(lambda tx: events.finish(tx, claim, Stored(Reply((seen,), summary), "offline")))


def everything(store: Store) -> Iterator[str]:
    """Every text that is stored in a table of the user's."""

    def read(tx: Tx) -> list[str]:
        found = []
        for table in queries.owned().values():
            rows = tx.all(f"export_{table.name}", **table.first, limit=1000)
            found += [f"{table.name}.{name}: {value}" for row in rows for name, value in row.items()]
        return found

    yield from store.read(read)


def holding(store: Store, word: str) -> list[str]:
    return [text for text in everything(store) if word.lower() in text.lower()]


def forget_matching(store: Store, words: str, project: str = "") -> forget_rows.Forgotten:
    gone = forget_rows.Forgotten(key=KEY)

    def run(tx: Tx) -> None:
        forget.matching(tx, words, project, gone)
        forget.finish(tx, gone)

    store.write(run)
    return gone


@pytest.mark.parametrize("words", ["quokkaville", "QuokkaVille", "kkavil", '"quokkaville"', "quokkaville*"])
def test_i16_a_part_of_a_word_is_enough_to_forget_it(store: Store, words: str) -> None:
    """File names, titles, facts, prompts, turns, payloads, branches, tools; letters large or small. The rest stays."""
    work(store, "gone", "Quokkaville", tool="mcp__quokkavilles__Edit")
    work(store, "kept", "wombat")
    kept = len(holding(store, "wombat"))
    assert len(holding(store, "quokkaville")) > 15 and kept > 15
    found = store.read(lambda tx: forget.find(tx, words))
    assert {item["kind"] for item in found.items} == {"observation", "summary", "prompt", "turn"}
    gone = forget_matching(store, words)
    assert (len(gone.observations), gone.summaries, gone.prompts, gone.turns) == (1, 1, 1, 2)
    assert holding(store, "quokkaville") == []
    assert len(holding(store, "wombat")) == kept


def test_all_of_several_words_must_be_there(store: Store) -> None:
    """In one row each; and in one project, if one is named."""
    work(store, "one", "quokkaville")
    work(store, "two", "wombat")
    assert forget_matching(store, "quokkaville wombat").observations == []
    assert forget_matching(store, "quokkaville", "another").observations == []
    assert forget_matching(store, "quokkaville mended narrated").observations == []
    assert forget_matching(store, "quokkavillenarr insid").observations != []


@pytest.mark.parametrize("word", ["übergangs", 'a"quote', "back\\slash", "100%_sure"])
def test_any_sign_may_be_a_part_of_what_is_forgotten(store: Store, word: str) -> None:
    """Letters beyond ASCII, and signs that JSON and SQL write in their own way."""
    work(store, "gone", word)
    work(store, "kept", "100 percent, surely")
    forget_matching(store, word if '"' not in word else "quote")
    assert holding(store, word) == []
    assert [text for text in everything(store) if "quote" in text or "slash" in text or "gangs" in text] == []
    assert len(holding(store, "surely")) > 10


def test_a_text_is_known_again_at_its_moment_and_by_its_key_only(store: Store, tmp_path: Path) -> None:
    """What is said at another time is something else, unless it was asked for by its words."""
    later = ids.from_ms(ids.at_ms(AT) + forgotten.NEAR_MS + 1)

    def has(text: str, at: str = AT, key: bytes = KEY) -> bool:
        return store.read(lambda tx: forgotten.has(tx, key, text, at))

    store.write(lambda tx: forgotten.add(tx, KEY, "Mend  the\ncart", AT))
    store.write(lambda tx: forgotten.add(tx, KEY, {"b": 1, "a": "x"}, AT))
    store.write(lambda tx: forgotten.add(tx, KEY, "quokkaville", forgotten.ALWAYS))
    assert has("Mend the cart") and not has("Mend the cart", later) and not has("Mend the cart.")
    assert has("quokkaville", later) and not has("quokkaville", key=b"x" * 32) and not has("quokkaville", key=b"")
    payload = {"tool_input": {"a": "x", "b": 1}, "tool_response": "ok"}
    assert store.read(lambda tx: forgotten.without(tx, KEY, payload, AT)) == {"tool_response": "ok"}
    assert store.read(lambda tx: forgotten.without(tx, KEY, payload, later)) is payload
    assert holding(store, "quokkaville") == [] and holding(store, "cart") == []
    paths = Paths(tmp_path / "data")
    assert forgotten.key(paths) == forgotten.key(paths) != forgotten.key(Paths(tmp_path / "other"))
    assert paths.forgotten_key.stat().st_mode & 0o077 == 0


REPLY = (
    "We looked at it. The dingo handler rounded twice. It is the fault of dingoside.\n\n"
    "- **Decision:** we use dingocents for all totals.\n- The till stays as it was.\n\nThe dingotoken (a name) stays."
)


TITLES = ("The dingo handler rounded twice", "Decision: we use dingocents for all totals")


def told(store: Store, session: str, reply: str = REPLY, titles: tuple[str, ...] = TITLES) -> list[int]:
    """A round whose reply has several statements. Return an observation of each of these."""

    def take(tx: Tx) -> Session:
        row = sessions.get_or_create(tx, report("session_start", session), Project("shop", "shop"))
        number = sessions.add_prompt(tx, row, "Please look at the till.", AT).number
        turns.add_reply(tx, row, number, reply, AT)
        events.add(tx, row, report("stop", session, last_assistant_message=reply))
        events.close_round(tx, row.id)
        return row

    store.write(take)
    claim = store.write(lambda tx: events.claim(tx, 60_000))
    assert claim
    seen = [Observation("decision", title, event_ids=(claim.round.events[0].id,)) for title in titles]
    stored = store.write(lambda tx: events.finish(tx, claim, Stored(Reply(tuple(seen), Summary()), "offline")))
    return list(stored.observation_ids)


def forget_by(store: Store, *steps: tuple[str, Any]) -> None:
    for how, what in steps:
        if how == "words":
            forget_matching(store, what)
            continue
        gone, work_of = forget_rows.Forgotten(key=KEY), {"id": forget.observation, "session": forget.session}[how]

        def run(tx: Tx, gone: forget_rows.Forgotten = gone, do: Any = work_of, number: int = what) -> None:
            do(tx, number, gone)
            forget.finish(tx, gone)

        store.write(run)


LATER = ids.from_ms(ids.at_ms(AT) + forgotten.NEAR_MS + 1)


@pytest.mark.parametrize("way", ["words", "session", "id, then session", "ids, then words", "id, then words"])
def test_i16_a_text_is_known_as_it_was_before_something_was_cut_from_it(store: Store, way: str) -> None:
    """A copy has the text as a whole, whatever went from ours before the rest of it was forgotten."""
    first, second = told(store, "gone")
    number = store.read(lambda tx: tx.one("observation_by_id", id=first) or {})["session_id"]
    steps = {"words": [("words", "dingo")], "session": [("session", number)]}.get(way, [])
    if "," in way:
        steps = [("id", first), ("id", second)] if way.startswith("ids") else [("id", second)]
        steps.append(("words", "dingo") if "words" in way else ("session", number))
    forget_by(store, *steps)
    assert holding(store, "dingo") == []
    payload = {"text": REPLY}

    def left(at: str) -> str:
        def read(tx: Tx) -> str:
            whole = forgotten.without(tx, KEY, payload, at)
            return str(forgotten.redacted(tx, KEY, whole, at).get("text", ""))

        return store.read(read)

    assert left(AT) == ""
    if way == "words":
        assert left(LATER) == "", "whatever time the copy has"
    else:
        assert left(LATER) == REPLY or "words" in way, "what is said again is remembered again"


def test_i16_a_sentence_with_the_words_is_kept_out_of_a_longer_text(store: Store) -> None:
    """A copy may be quoted, or be a part of another message. The rest of that comes in."""
    told(store, "gone")
    forget_matching(store, "dingo")
    quoted = f"Before it said this. {REPLY} After it said that."
    left = store.read(lambda tx: forgotten.cut(tx, KEY, quoted, LATER))
    assert "dingo" not in left
    assert "Before it said this." in left and "The till stays as it was." in left and "After it said that." in left


def test_i16_the_summary_of_a_compaction_loses_the_sentence_in_its_copy_too(store: Store) -> None:
    """It is in no turn, so it is taken from the event."""
    text = "The till was looked at. The wombat handler was renamed yesterday. The rest stays."
    said = "The wombat handler was renamed yesterday."
    (first,) = told(store, "gone", f"{said} We use cents.", (said,))

    def compact(tx: Tx) -> None:
        row = sessions.by_content_id(tx, "claude-code", ContentId("gone"))
        assert row
        events.add(tx, row, replace(report("post_compact", "gone", compact_summary=text), occurred_at=LATER))

    store.write(compact)
    forget_by(store, ("id", first))
    assert holding(store, "wombat handler was renamed") == []
    assert store.read(lambda tx: forgotten.cut(tx, KEY, text, LATER)) == "The till was looked at. The rest stays."


def test_i16_who_is_observing_what_is_forgotten_starts_again(store: Store) -> None:
    """An answer that was asked for before may say what an earlier round said."""

    def take(tx: Tx, prompt: str, reply: str) -> None:
        row = sessions.get_or_create(tx, report("session_start", "s"), Project("shop", "shop"))
        number = sessions.add_prompt(tx, row, prompt, AT).number
        turns.add_reply(tx, row, number, reply, AT)
        events.add(tx, row, report("stop", f"s{number}", last_assistant_message=reply))
        events.close_round(tx, row.id)

    store.write(lambda tx: take(tx, "Please look at the till.", "The dingo is gone."))
    first = store.write(lambda tx: events.claim(tx, 60_000))
    assert first
    store.write(lambda tx: events.finish(tx, first, Stored(Reply(), "offline")))
    store.write(lambda tx: take(tx, "And at the door.", "It stays."))
    claim = store.write(lambda tx: events.claim(tx, 60_000))
    assert claim and any("dingo" in (turn.text or "") for turn in claim.round.turns)
    forget_matching(store, "dingo")
    answer = Stored(Reply((Observation("change", "The dingo is gone"),)), "claude")
    with pytest.raises(LeaseLost):
        store.write(lambda tx: events.finish(tx, claim, answer))
    assert holding(store, "dingo") == []
