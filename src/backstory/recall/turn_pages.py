"""The conversation of a session as text, in pages: every turn, and a line for each tool use between two turns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from backstory.errors import NotFound
from backstory.model import Event, Session, Turn
from backstory.store import segments
from backstory.store.db import Tx
from backstory.store.segments import Segment
from backstory.store.turns import MAX_TEXT
from backstory.text import cut, local, one_line, visible

#: Characters of a page. They are about 3,000 tokens.
PAGE = 12_000
#: Characters of what a tool was used for, of the beginning of its error, and of the end of it.
MAX_INPUT = 200
MAX_ERROR = 60
MAX_ERROR_END = 100
#: Arguments that tell what a tool was used for, the best first.
_TELLING = ("command", "file_path", "notebook_path", "pattern", "query", "url", "path", "description", "prompt")
#: The beginning of a line that looks like the label of a turn: `[3] user, …`
_LABEL = re.compile(r"^(\W*)\[(?=\d+\]\s)", re.MULTILINE)
#: The label of tool uses that follow no reply.
_TOOLS = "(tool uses)"


@dataclass(frozen=True, slots=True)
class TurnPage:
    """A page of a conversation."""

    session_id: int
    segment: int  #: 0 for the whole conversation
    segments: int
    page: int
    pages: int
    text: str


def read(tx: Tx, session: Session, segment: int = 0, page: int = 1) -> TurnPage:
    """Return a page of a session or of one of its segments. Page -1 is the last one."""
    known = segments.of_session(tx, session.id)
    if segment > len(known):
        raise NotFound(f"There is no segment {segment}: this session has {_count(len(known), 'segment')}.")
    span = known[segment - 1] if segment else segments.WHOLE
    texts = list(pages(_pieces(tx, session, span))) or ["(Nothing was said.)"]
    if not 1 <= abs(page) <= len(texts):
        where = f"segment {segment}" if segment else "this session"
        raise NotFound(f"There is no page {page}: {where} has {_count(len(texts), 'page')}.")
    at = page if page > 0 else len(texts) + page + 1
    return TurnPage(session.id, segment, len(known), at, len(texts), texts[at - 1])


def pages(pieces: Iterable[tuple[str, str]], size: int = PAGE) -> Iterator[str]:
    """Fill pages with labelled texts. Only a text that is longer than a page goes on in the next one."""
    page = ""
    for label, text in pieces:
        head, rest = f"{label}\n", text
        while rest:
            room = size - len(page) - len(head)
            if page and len(rest) > room and (len(head) + len(rest) <= size or room < size // 4):
                yield page.rstrip("\n")
                page = ""
                continue
            end = len(rest) if len(rest) <= room else _end(rest, room)
            page += f"{head}{rest[:end]}\n\n"
            rest = rest[end:]
            if rest:
                yield page.rstrip("\n")
                page, head = "", f"{label} (goes on)\n"
    if page:
        yield page.rstrip("\n")


def _end(text: str, size: int) -> int:
    """Where to cut a text: at the end of a line or of a word, if there is one in its second half."""
    for separator in ("\n", " "):
        at = text.rfind(separator, size // 2, size)
        if at > 0:
            return at + 1
    return size


def _pieces(tx: Tx, session: Session, segment: Segment) -> Iterator[tuple[str, str]]:
    """Yield each turn with its label and its text, and the tool uses before the next turn with it if it was a reply."""
    tools = segments.tools_of(tx, session.id, segment)
    use = next(tools, None)
    label, lines = _TOOLS, list[str]()
    for turn in (*segments.turns_of(tx, session.id, segment), None):
        while use and (turn is None or use.occurred_at < turn.at):
            lines.append(f"- {tool_line(use, session.root or session.cwd)}")
            use = next(tools, None)
        if lines:
            yield label, "\n".join(lines)
        label, lines = _TOOLS, []
        if turn:
            said = f"[{turn.number}] {turn.speaker or turn.role}, {local(turn.at)}", _text(turn)
            if turn.role == "assistant":
                label, lines = said[0], [said[1]]
            else:
                yield said


def _text(turn: Turn) -> str:
    if turn.text is None:
        return "(private or forgotten)"
    text = _LABEL.sub(r"\1‹", visible(turn.text))
    return text if len(turn.text) < MAX_TEXT else f"{text}\n(The rest was not kept.)"


def tool_line(event: Event, cwd: str = "") -> str:
    """A tool use as one line: the tool, what it was used for, and its error."""
    error = error_of(event)
    failed = f" (failed: {error})" if error is not None else ""
    return f"{event.tool_name or 'tool'} {used_for(event, cwd)}".strip() + failed


def used_for(event: Event, cwd: str = "") -> str:
    """What a tool was used for: the argument that tells most."""
    given = event.payload.get("tool_input")
    values = given if isinstance(given, dict) else {"": given}
    texts = [text for name in (*_TELLING, *values) if isinstance(text := values.get(name), str)]
    return cut(one_line(texts[0]).removeprefix(f"{cwd}/"), MAX_INPUT) if texts else ""


def error_of(event: Event) -> str | None:
    """The error of a tool use as one line; None if it succeeded."""
    error = event.payload.get("error")
    return _ends(one_line(error)) if isinstance(error, str) else None


def _ends(text: str) -> str:
    """A text without its middle, if it is long."""
    return text if len(text) <= MAX_ERROR + MAX_ERROR_END else f"{cut(text, MAX_ERROR)} {text[-MAX_ERROR_END:]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
