"""Statements: what was said in a session, cut into sentences and list items that can stand alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from backstory.labels import without_commits
from backstory.model import Turn
from backstory.observe.offline.cues import CUES
from backstory.observe.offline.quoted import is_quote_open, own_lines, reported, speaks_for_another
from backstory.observe.offline.text import BOLD_LINE, HEADING, ITEM, RULE, clip, plain, prose_lines, sentences
from backstory.pasted import without_output

#: Messages that nobody said: the client's own machinery wrote them.
_MACHINERY = re.compile(
    r"\s*(?:No response requested\.?$|\[Request interrupted|<command-|<local-command|<bash-|<task-notification|Caveat:|"
    r"This session is being continued|API Error\b|Operation stopped by hook|Stop hook feedback|"
    r"<user-prompt-submit-hook)"
)
#: What clients add to prompts and commit messages: where a plan was made, a signature, trailers.
_BOILERPLATE = re.compile(r"If you need specific details from before exiting plan mode|🤖|[\w-]+-by: ", re.IGNORECASE)
#: Statements whose properties are cached. Each round ranks all statements of its session again.
STATEMENTS_REMEMBERED = 2048
#: Messages whose statements are cached.
MESSAGES_REMEMBERED = 512
#: Characters of an item that can stand as the heading of the items below it.
MAX_PARENT = 80
#: Characters of a sentence that announces a list, with the beginning of the list: about a title.
ANNOUNCED = 150
#: A heading or label over what is left to do.
OPEN_HEADING = re.compile(
    r"\b(?:next(?: steps?)?|remain(?:s|ing)|to-?do|follow[- ]?ups?|outstanding|pending|left to do|still (?:to do|open)|"
    r"open (?:questions?|points?|issues|ends?)|future work|nächste schritte|offen|pendientes?|próximos pasos)\b"
    r"|下一步|待办|次の|残り|다음",
    re.IGNORECASE,
)
#: A list that asks the user to choose.
_OFFERS = re.compile(
    r"\b(?:would you like|want me to|like me to|do you want|should i|shall i|möchtest du|soll ich|quieres que)\b",
    re.IGNORECASE,
)
#: A sentence that points at what follows, or names it, without saying it.
_POINTS = re.compile(
    r"\b(?:here(?:'s| is| are)|following|as follows|below|summary|you(?:'ll| (?:can|should|will))(?: now)? see)\b",
    re.IGNORECASE,
)
#: How a client begins a prompt that it makes of a plan of the agent.
_PLANNED = re.compile(r"\s*(?:please )?implement the following plan\b", re.IGNORECASE)
#: A message that looks like the line of a commit. Only commands make commits.
COMMIT_LABEL = re.compile(r"^commit [0-9a-f]{7,40}\s*[:：–—-]\s*(?=\S)", re.IGNORECASE)
_NUMBER = re.compile(r"^\d{1,2}[.)]\s+")
_LABEL = re.compile(r"\*\*([^*\n]{2,60}?)(?::\*\*|\*\*\s*[:：–—-])\s*")


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence or a list item, and where it was said."""

    text: str
    source: str  #: prompt, between (tool uses) or last (message of a round)
    round: int  #: the number of its prompt
    turn: int  #: the place of its message in the session
    position: int  #: in its message
    count: int  #: of the statements in its message
    is_item: bool = False
    heading: str = ""  #: the heading above it, or the sentence that announces its list
    label: str = ""  #: its bold beginning: "Root cause"
    is_quoted: bool = False  #: somebody else says it
    is_planned: bool = False  #: a plan of the agent, which the user's client sent as a prompt


def own_words(prompt: str) -> str:
    """Return what the user says in a prompt, without what it quotes."""
    said = statements_of([Turn(0, 0, 0, 0, "user", None, prompt, "", None)])
    return "\n".join(one.text for one in said if not one.is_quoted and not one.is_planned)


def statements_of(turns: Iterable[Turn], unanswered: int | None = None) -> list[Statement]:
    """Return all statements of a conversation, in their order. `unanswered` is a round without a closing reply."""
    said = [turn for turn in turns if turn.text and not _MACHINERY.match(turn.text)]
    last = {turn.prompt_number: turn.number for turn in said if turn.role == "assistant"}
    last |= {} if unanswered is None else {unanswered: -1}
    statements: list[Statement] = []
    for turn in said:
        source = "prompt" if turn.role == "user" else "last" if last[turn.prompt_number] == turn.number else "between"
        statements += _of_message(turn.text or "", source, turn.prompt_number, turn.number)
    return statements


class _Piece(NamedTuple):
    """A statement before it has its place."""

    text: str
    is_item: bool
    heading: str
    label: str
    is_quoted: bool


@lru_cache(MESSAGES_REMEMBERED)
def _of_message(text: str, source: str, round_: int, turn: int) -> tuple[Statement, ...]:
    message = without_output(text) if source == "prompt" else text
    parts = [part for part in _split(message) if not _BOILERPLATE.match(part.text)]
    is_planned = source == "prompt" and bool(_PLANNED.match(text))
    return tuple(
        Statement(
            text=without_commits(COMMIT_LABEL.sub("", _with_items(parts, at, source))),
            source=source,
            round=round_,
            turn=turn,
            position=at,
            count=len(parts),
            is_item=part.is_item,
            heading=part.heading,
            label=part.label,
            is_quoted=part.is_quoted,
            is_planned=is_planned,
        )
        for at, part in enumerate(parts)
    )


def _with_items(parts: Sequence[_Piece], position: int, source: str) -> str:
    """Return the text of a part. A sentence that announces a list is said with the beginning of the list, and one that
    announces code without its colon if it tells what was done. Between tool uses only work is announced."""
    text, is_item, heading = parts[position][:3]
    if is_item or source == "between" or not text.endswith((":", "：")) or _OFFERS.search(text):
        return text
    said = text.rstrip(":：")
    items = []
    for item, follows, below, label, is_quoted in parts[position + 1 :]:
        if not follows or below not in (said, heading) or is_quoted:
            break
        items.append(label or item.rstrip(".:："))
    if items:
        return clip(f"{said}: {'; '.join(items)}", ANNOUNCED)
    return said if CUES["done"].search(said) and not _POINTS.search(said) else text


def _split(message: str) -> Iterator[_Piece]:
    heading, announced, is_item, indent, lines = "", "", False, 0, list[str]()
    # The next block is announced as somebody else's words; a list is such a block; an HTML quote is open.
    is_reported = is_listed = is_open = False
    above: list[tuple[int, str]] = []  #: the items that the next one may stand below: indentation and text
    for line in [*prose_lines(message), ""]:
        is_heading = HEADING.match(line) or BOLD_LINE.match(line.strip())
        item = None if is_heading else ITEM.match(line)
        if lines and (is_heading or item or not line.strip() or RULE.match(line)):
            raw, own = " ".join(lines), plain(" ".join(own_lines(lines)))
            lines = []
            found = _LABEL.match(raw)
            label = found.group(1) if found else ""
            if is_item:
                text, is_listed = plain(raw), True
                is_quoted = is_reported or is_open or text not in own or speaks_for_another(text)
                above = [one for one in above if one[0] < indent]
                parent = above[-1][1] if above and above[-1][1] else heading or announced
                yield _Piece(text, True, parent, label, is_quoted)
                parent = label or text.rstrip(":：")
                above.append((indent, parent if len(parent) <= MAX_PARENT else ""))
            else:
                above = []
                parts = sentences(plain(raw))
                is_to_do = bool(OPEN_HEADING.search(label))
                was_reported, is_reported, is_listed = is_reported and not is_listed, False, False
                for at, (part, is_others, goes_on) in enumerate(reported(parts)):
                    is_quoted = was_reported or is_open or is_others or part not in own
                    yield _Piece(part, False, heading, label if is_to_do or not at else "", is_quoted)
                    is_reported = goes_on and part.endswith((":", "："))
                announced = parts[-1].rstrip(":：") if parts and parts[-1].endswith((":", "：")) else ""
        is_open = is_quote_open(line, is_open)
        if is_heading:
            is_reported = False
            heading, announced, is_item = _NUMBER.sub("", plain(HEADING.sub("", line)).strip("#: ")), "", False
            above = []
        elif item:
            is_item, indent = True, len(line) - len(line.lstrip())
            lines.append(line[item.end() :].strip())
        elif not line.strip() or RULE.match(line):
            is_item = False
        else:
            lines.append(line.strip())
