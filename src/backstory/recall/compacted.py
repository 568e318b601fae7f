"""What a session is told about itself after a compaction: what was asked, what was under way, and what is open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from backstory.labels import unlabelled, without_commits
from backstory.model import NO_REPLY_YET, Session
from backstory.recall.hand_off import Line, Repetitions, asked, results
from backstory.recall.relevance import Ranked
from backstory.recall.turn_pages import tool_line
from backstory.store import events, prompts, segments, turns
from backstory.store.db import Tx
from backstory.store.memories import SessionNotes
from backstory.store.payloads import read_or_nothing
from backstory.text import cut, local

#: Characters of what was asked last: of its beginning and of its end.
MAX_ASKED = 1200
MAX_ASKED_END = 400
#: Characters of a request that says little without the reply before it: `yes, do that`.
SHORT_REQUEST = 100
#: Characters of a reply, from its end: what comes next is said there.
MAX_REPLY = 400
#: The last tool uses that are told, at most.
MAX_TOOLS = 5
#: What a summary says of a round that has not ended, up to the end of the sentence. A command may contain a period.
_NO_REPLY_YET = re.compile(rf"{NO_REPLY_YET}(?:`[^`]*`|\.(?!\s|$)|[^.`])*\.?\s*")


def full_text(tx: Tx, session: Session, command: str) -> str:
    """Where the full text of the session is."""
    compacted = segments.of_session(tx, session.id)[:-1]
    segment = f"segment {compacted[-1].number}, " if compacted else ""
    return (
        f"What was said is kept word for word: backstory's tool `get_turns` with id {session.id}, {segment}page -1 "
        f"shows its end, page 1 its beginning (or `{command} sessions show {session.id} --turns`)."
    )


def so_far(tx: Tx, notes: SessionNotes, ranked: Iterable[Ranked]) -> Iterator[Line]:
    """The section on the session itself."""
    session, said = notes.session, Repetitions()
    yield Line("")
    yield Line(f"## This session so far (since {local(session.created_at)})", "this session before it was compacted")
    for line in _requests(tx, notes):
        said.add(line.text)
        yield line
    if notes.summary:
        # What was under way is told above, and in more detail.
        rest = _NO_REPLY_YET.sub("", notes.summary.next_steps, count=1)
        notes = replace(notes, summary=replace(notes.summary, next_steps=rest))
    yield from results(notes, ranked, said)


def _requests(tx: Tx, notes: SessionNotes) -> Iterator[Line]:
    """What was asked. The last request is told as it was written, because a summary paraphrases it."""
    session, why = notes.session, "the request that was being worked on"
    last = prompts.by_number(tx, session.id, session.prompt_counter)
    if last is None or last.prompt is None:
        yield from asked(notes.prompts)
        if last:
            yield Line("What was asked last was not kept: it is private or was forgotten.", why)
        return
    text, earlier, is_answered = unlabelled(last.prompt), notes.prompts[:-1], _is_answered(tx, session)
    yield from asked(earlier)
    is_short = len(text) < SHORT_REQUEST and not is_answered
    if is_short and (reply := turns.reply_text(tx, session.id, last.prompt_number - 1)):
        yield Line(f"Last reply: {_end(reply)}", why)
    if len(text) > MAX_ASKED + MAX_ASKED_END:
        text = f"{cut(text, MAX_ASKED)} {text[-MAX_ASKED_END:]}"  # the question is often at the end
    yield Line(f"Asked{' last' if earlier else ''}: {text}", why)
    if is_answered:
        yield Line("That was answered. Nothing was under way.", why)
    else:
        yield from _under_way(tx, session)


def _is_answered(tx: Tx, session: Session) -> bool:
    stops = events.stops_of_round(tx, session, session.prompt_counter)
    return any("last_assistant_message" in read_or_nothing(stop.payload) for stop in stops)


def _under_way(tx: Tx, session: Session) -> Iterator[Line]:
    """What was said and done last for a request that was not answered yet."""
    number, why = session.prompt_counter, "what was under way"
    reply = turns.reply_text(tx, session.id, number)
    yield Line(f"That was not answered yet.{f' Said last: {_end(reply)}' if reply else ''}", why)
    tools = [
        unlabelled(tool_line(use, session.root or session.cwd))
        for use in segments.last_tools(tx, session.id, number, MAX_TOOLS)
    ]
    if tools:
        yield Line(f"Done last: {' · '.join(line for line, _ in groupby(tools))}", why)


def _end(text: str) -> str:
    """The end of a text, from the beginning of a word."""
    text = without_commits(unlabelled(text))
    return text if len(text) <= MAX_REPLY else f"…{text[-MAX_REPLY:].partition(' ')[2] or text[-MAX_REPLY:]}"
