"""What a new session is told about an earlier one: what was asked, what is open, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from backstory.labels import PRINTED, UNMARKED, labelled, unlabelled
from backstory.model import NOT_COMMITTED, Session
from backstory.pasted import without_output
from backstory.recall.relevance import Ranked
from backstory.store.memories import SessionNotes, StoredObservation
from backstory.text import cut, is_same, local, one_line, words_of

#: How the heading of the last session begins.
LAST = "## Last session"
#: Characters of what was asked first in a session, of what was asked later, and of all of that.
MAX_ASKED = 700
MAX_LATER_ASKED = 160
MAX_ALL_ASKED = 1100
#: Characters of a prompt that says something to someone who was not there.
MIN_ASKED = 25
#: Characters of each field of a summary.
MAX_FIELD = 700
#: Characters of an observation of the last session.
MAX_LINE = 560
#: Two lines say the same if this share of the words of the shorter one is in both.
SAME = 0.7
#: How a text ends that needs no full stop.
ENDS = ("…", "!", "?", ":", "。", "！", "？")
_NUMBER = re.compile(r"\d+")
#: A question for earlier work: `What did we do last time?`, `Where did we leave off?`, `What do you remember?`
_ASKS_BACK = re.compile(
    r"\b(?:what|where|which)\b.*\b(?:last time|last session|previous(?:ly)?|yesterday|left off|leave off|so far|before|"
    r"remember|earlier|stopped?|know about)\b|\b(?:catch me up|remind me|where were we|recap)\b",
    re.IGNORECASE | re.DOTALL,
)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")


class Line(NamedTuple):
    """A line of a context."""

    text: str
    why: str = ""  #: why it is there
    observation_id: int | None = None  #: the observation that it tells
    summary_id: int | None = None  #: the summary that it is from
    session_id: int | None = None  #: the session that it is about


class Repetitions:
    """What the lines of a context have said, so that nothing is said twice."""

    def __init__(self) -> None:
        self._lines: list[tuple[frozenset[str], set[str]]] = []

    def add(self, text: str) -> None:
        self._lines.append((words_of(text), set(_NUMBER.findall(text))))

    def has(self, text: str) -> bool:
        """Whether a line says the same. With other numbers it does not: `port 8080` is not `port 9090`."""
        words, numbers = words_of(text), set(_NUMBER.findall(text))
        return any(is_same(words, line, SAME) and numbers <= known for line, known in self._lines if line)


def hand_off(notes: SessionNotes, ranked: Iterable[Ranked], where: str, is_clean: bool = False) -> Iterator[Line]:
    """The section on the last session. `where` says whose last session it is. With `is_clean`, the working tree has no
    uncommitted changes now."""
    session, said = notes.session, Repetitions()
    yield Line("")
    title = f"{LAST} ({local(session.last_event_at)}{branch(session)})"
    yield Line(title, where, session_id=session.id)
    for line in asked(notes.prompts):
        said.add(line.text)
        yield line._replace(session_id=session.id)
    yield from results(notes, ranked, said, is_clean)


def results(notes: SessionNotes, ranked: Iterable[Ranked], said: Repetitions, is_clean: bool = False) -> Iterator[Line]:
    """What came of a session: what is open, its observations, and what its last summary adds to them."""
    summary = notes.summary
    source = {"summary_id": summary.id if summary else None, "session_id": notes.session.id}
    for title in notes.hidden:
        said.add(title)  # its summary may say it, too
    if summary and summary.next_steps:
        text = _field(summary.next_steps)
        said.add(text)
        yield Line(f"Open: {text}", "left open by this session", **source)
    if summary and summary.notes and not (is_clean and summary.notes.startswith(NOT_COMMITTED)):
        yield Line(f"Note: {_field(summary.notes)}", "the state in which it ended", **source)
    for one in ranked:
        text = told(one.observation, MAX_LINE, said)
        has_no_facts_left = text == told(replace(one.observation, facts=(), fact_marks=()), MAX_LINE)
        if has_no_facts_left and said.has(text):  # it repeats what was asked, or what is open
            continue
        said.add(text)
        yield observation_line(one, text)
    for label, text in (("Done", summary.completed), ("Learned", summary.learned)) if summary else ():
        if rest := " ".join(part for part in _SENTENCE_END.split(unlabelled(text)) if part and not said.has(part)):
            yield Line(f"{label}: {cut(rest, MAX_FIELD)}", "from the summary of its last round", **source)


def heading(notes: SessionNotes) -> Iterator[Line]:
    """The lines on an earlier session above its observations."""
    session, summary = notes.session, notes.summary
    request = "".join(telling(notes.prompts)[:1]) or "what was asked is not known"
    title = f"{local(session.last_event_at)}{branch(session)}: {cut(request, 120)}"
    yield Line(title, "a recent session", session_id=session.id)
    if summary and summary.next_steps:
        text = f"Open: {cut(unlabelled(summary.next_steps), 240)}"
        yield Line(text, "left open by this session", summary_id=summary.id, session_id=session.id)


def asked(prompts: Sequence[str]) -> Iterator[Line]:
    """What was asked: the first prompt as a whole, and the later ones as far as there is room."""
    said = telling(prompts)
    if not said:
        return
    first = cut(said[0], MAX_ASKED)
    yield Line(f"Asked: {first}", "the task of this session")
    room, later = MAX_ALL_ASKED - len(first), list[str]()
    for prompt in reversed(said[1:]):
        text = cut(prompt, MAX_LATER_ASKED)
        if len(text) > room:
            break
        room -= len(text)
        later.append(text)
    if later:
        yield Line(f"Then: {' · '.join(reversed(later))}", "what was asked later in this session")


def telling(prompts: Sequence[str]) -> list[str]:
    """The prompts that say something to someone who was not there: not `yes`, `commit` or the output of a program,
    unless there is no other."""
    said = [prompt for prompt in map(unlabelled, map(without_output, prompts)) if prompt]
    whole = [prompt for prompt in map(unlabelled, prompts) if prompt]
    return [prompt for prompt in said if len(prompt) >= MIN_ASKED] or (said or whole)[:1]


def only_asked(notes: SessionNotes) -> bool:
    """Whether a session only asked for earlier work, and changed nothing."""
    said = [prompt for prompt in map(one_line, notes.prompts) if prompt]
    is_asking = bool(said) and all(len(prompt) <= MAX_LATER_ASKED and _ASKS_BACK.search(prompt) for prompt in said)
    return is_asking and not any(one.files_modified for one in notes.observations)


def told(observation: StoredObservation, limit: int, said: Repetitions | None = None) -> str:
    """An observation with as many of its facts as fit into one line, without those that were said. A mark holds up to
    the next one."""
    mark, whole = observation.mark, observation.title
    if whole.endswith("…") and observation.narrative:
        whole = observation.narrative
    text = cut(labelled(mark, whole), min(240, max(limit, 160))).rstrip(".")
    for own, fact in observation.marked_facts:
        plain = cut(unlabelled(fact), 240).rstrip(".")
        added = plain if own == mark else f"{PRINTED[own] or UNMARKED}{plain}"
        if len(text) + len(added) + 2 <= limit and not (said and said.has(plain)):
            text, mark = f"{text}{'' if text.endswith(ENDS) else '.'} {added}", own
    return text


def observation_line(ranked: Ranked, text: str, here: str | None = None) -> Line:
    """An observation as a line. If it is of another branch than `here`, the line says of which."""
    one = ranked.observation
    times = f" ({one.times_learned} times)" if one.times_learned > 1 else ""
    where = other_branch(one, here)
    return Line(f"#{one.id} {one.type}: {text}{times}{where}", ", ".join(ranked.reasons), one.id, None, one.session_id)


def other_branch(observation: StoredObservation, here: str | None) -> str:
    """The branch of an observation, if it is not the one that is checked out."""
    name = observation.git_branch
    return f" (branch {cut(unlabelled(name), 60)})" if name and here and name != here else ""


def branch(session: Session) -> str:
    return f", branch {cut(unlabelled(session.git_branch), 60)}" if session.git_branch else ""


def _field(text: str) -> str:
    return cut(unlabelled(text), MAX_FIELD)
