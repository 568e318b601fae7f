"""Forgets an observation exactly: what it says goes from the conversation and the summaries of its session, sentence by
sentence. What others say stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from backstory import passages
from backstory.model import Summary, Turn, with_marks
from backstory.passages import Cut
from backstory.store import forget_rows, marked, observations, prompts, repeated, sessions, titles, turns
from backstory.store.db import Row, Tx
from backstory.store.forget_rows import Forgotten
from backstory.store.index import indexing
from backstory.store.payloads import read_or_nothing

#: Kinds of events that say what was said. They lose the sentences, and are not forgotten as a whole.
SPOKEN = ("prompt", "stop", "subagent_stop", "post_compact")
#: How the narrative of an observation begins that quotes its prompt.
ASKED = "Asked: "
#: Letters of a word by which a sentence of a summary is recognised.
MIN_LETTERS = 3
_FIELDS = tuple(each.name for each in fields(Summary))


def observation(tx: Tx, row: Row, gone: Forgotten) -> None:
    """Forget an observation, earlier ones that say the same, the events that only they came from, and what they say."""
    rows = [row, *repeated.earlier(tx, row)]
    said = [text for each in rows for text in _said(each)]
    unshared = _unshared_events(tx, rows)
    everything = " ".join((*map(observations.own_words, rows), *(event["payload"] or "" for event in unshared)))
    for each in rows:
        gone.beside |= {other["id"] for other in tx.all("observations_of_same_events", id=each["id"])}
        forget_rows.observation(tx, each, gone)
        # A model that read the rest of the round could tell it again.
        tx.run("reobserve_skip_round", session_id=each["session_id"], prompt_number=each["prompt_number"])
    forget_rows.events(tx, unshared, gone)
    for session_id in {each["session_id"] for each in rows}:
        _Session(tx, session_id, said, gone).forget(everything)
    gone.beside -= set(gone.observations)


def _said(row: Row) -> list[str]:
    """Return the statement of an observation. Its title may begin with the heading of what it quotes. Its facts are
    details that it gathered from other statements, such as an open end: these stay where they were said."""
    narrative = "" if row["narrative"].startswith(ASKED) else row["narrative"]
    title = row["title"]
    subtitle = "" if row["provider"] == "offline" else row["subtitle"]  # the rules put a heading there
    texts = [title, title.partition(": ")[2], subtitle, narrative]
    return [text for text in texts if text.strip()]


def _unshared_events(tx: Tx, rows: Sequence[Row]) -> list[Row]:
    """Return the events, other than what was said, from which only these observations came."""
    ours = {row["id"] for row in rows}
    sources = {event["id"]: event for row in rows for event in tx.all("observation_sources", id=row["id"])}
    return [
        event
        for event in sources.values()
        if event["kind"] not in SPOKEN
        and {o["id"] for o in tx.all("observations_of_event", event_id=event["id"])} <= ours
    ]


class _Session:
    """A session from which quoted sentences are removed."""

    def __init__(self, tx: Tx, session_id: int, said: Sequence[str], gone: Forgotten) -> None:
        self._tx, self._id, self._said, self._gone = tx, session_id, said, gone

    def forget(self, everything: str) -> None:
        """Remove the sentences. `everything` is all that is forgotten."""
        tx = self._tx
        for turn in turns.of_session(tx, self._id):
            if turn.text:
                self._cut_turn(turn, turn.text)
        for event in tx.all("events_spoken", session_id=self._id):
            self._cut_event(event)
        for row in tx.all("observations_of_whole_session", session_id=self._id):
            self._cut_facts(row)
        lost = self._lost_words(everything)

        def is_lost(passage: str) -> bool:
            return not lost.isdisjoint(passages.words(passage))

        for row in tx.all("summaries_of_whole_session", session_id=self._id):
            self._cut_summary(row, is_lost)
        if any(is_lost(row["title"]) for row in titles.of_session(tx, self._id) if row["source"] == "agent"):
            forget_rows.titles(tx, titles.remove_made(tx, self._id), self._gone)
        self._gone.changed_sessions.add(self._id)
        self._gone.cleaned_sessions.add(self._id)
        # A round that is being observed was read before. It is observed again, without these sentences.
        tx.run("session_leases_release", session_id=self._id)

    def _cut_turn(self, turn: Turn, text: str) -> None:
        cut = passages.cut_quoted(text, self._said)
        if not cut.removed:
            return
        tx, kind = self._tx, "prompt" if turn.role == "user" else "reply"
        forget_rows.passage(tx, cut, turn.at, (kind, self._id, turn.prompt_number), self._gone)
        forget_rows.mark(tx, self._id, "cut", "")
        if turn.role != "user":
            forget_rows.mark(tx, self._id, "round", str(turn.prompt_number))
        session = sessions.get(tx, self._id)
        turns.put_text(tx, session, turn, cut.text)
        if turn.role == "user" and (prompt := prompts.by_number(tx, self._id, turn.prompt_number)) and prompt.prompt:
            left = passages.cut_quoted(prompt.prompt, self._said).text or None
            tx.run("prompt_put_text", id=prompt.id, prompt=left)
            indexing.remove_words(tx, "prompt", prompt.id)
            row = tx.one("prompt_by_id", id=prompt.id)
            if row and left:
                observations.index_row(tx, "prompt", row, session)
            if session.first_user_prompt:
                first = passages.cut_quoted(session.first_user_prompt, self._said).text or None
                tx.run("session_put_first_prompt", id=self._id, prompt=first)

    def _cut_event(self, event: Row) -> None:
        payload = read_or_nothing(event["payload"])
        cuts = {n: passages.cut_quoted(text, self._said) for n, text in payload.items() if isinstance(text, str)}
        if not any(cut.removed for cut in cuts.values()):
            return
        forget_rows.mark(self._tx, self._id, "cut", "")
        for cut in cuts.values():
            forget_rows.keep_out_passages(self._tx, cut, event["occurred_at"], self._gone)
        left = {name: cuts[name].text if name in cuts else value for name, value in payload.items()}
        self._tx.run("event_put_payload", id=event["id"], payload=json.dumps(left, ensure_ascii=False))
        if event["kind"] != "prompt":
            forget_rows.mark(self._tx, self._id, "round", str(event["prompt_number"]))
        # Copies of it, such as one that waits in the spool, still have the sentences.
        self._gone.names |= {name for name in (event["event_id"], event["tool_use_id"]) if name}

    def _cut_facts(self, row: Row) -> None:
        """Remove the statement from another observation that has it as a detail."""
        known = marked.noted_of(row)
        cut = (
            (passages.cut_quoted(fact, self._said).text, mark)
            for mark, fact in with_marks(known.facts, known.fact_marks)
        )
        left = [(text, mark) for text, mark in cut if text]
        if [text for text, _ in left] != [*known.facts]:
            forget_rows.mark(self._tx, self._id, "observation", forget_rows.digest_of(row))
            texts, marks = tuple(text for text, _ in left), tuple(mark for _, mark in left)
            observations.put_texts(self._tx, row, replace(known, facts=texts, fact_marks=marks))

    def _cut_summary(self, row: Row, is_lost: Callable[[str], bool]) -> None:
        tx, left, removed = self._tx, dict[str, str](), list[str]()
        for name in _FIELDS:
            quoted = passages.cut_quoted(row[name], self._said)
            lost = passages.cut(quoted.text, is_lost)
            left[name] = lost.text if quoted.removed or lost.removed else row[name]
            removed += [*quoted.removed, *lost.removed]
        if not removed:
            return
        about = ("summary", self._id, row["prompt_number"])
        forget_rows.passage(tx, Cut("", tuple(removed)), row["created_at"], about, self._gone)
        if not any(text for name, text in left.items() if name != "request"):
            forget_rows.summary(tx, row, self._gone)
            return
        tx.run("summary_put_texts", id=row["id"], **left)
        observations.index_row(tx, "summary", row | left, sessions.get(tx, self._id))

    def _lost_words(self, said: str) -> frozenset[str]:
        """Return the words that nothing in the session says any more, except its summaries, which repeat them."""
        tx = self._tx
        lost = {word for word in passages.words(said) if len(word) >= MIN_LETTERS and not word.isdigit()}
        for turn in turns.of_session(tx, self._id):
            lost.difference_update(passages.words(turn.text or ""))
        for row in tx.all("observations_of_whole_session", session_id=self._id):
            lost.difference_update(passages.words(observations.own_words(row)))
        after = 0
        while lost and (rows := tx.all("events_of_session_after", session_id=self._id, after=after, limit=50)):
            for row in rows:
                lost.difference_update(passages.words(row["payload"] or ""))
            after = rows[-1]["id"]
        return frozenset(lost)
