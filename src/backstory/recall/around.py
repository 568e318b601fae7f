"""What was said around an observation: what had been asked, and what was answered. A sentence alone says little."""

from __future__ import annotations

import re

from backstory.recall.hand_off import telling
from backstory.store import prompts, turns
from backstory.store.db import Row, Tx
from backstory.text import cut, one_line

#: Prompts that are read to find one that says something by itself.
MAX_PROMPTS = 5
#: Characters of what had been asked.
ASKED = 240
#: Characters of the answer.
ANSWERED = 480
#: Words of a title by which its place in the answer is found.
FIRST_WORDS = 5
#: The marks of bold text, headings and code blocks; not those of powers and globs: `2**3`, `src/**`.
_MARKUP = re.compile(r"(?<!\w)\*\*(?=[\w`(])|(?<=[\w`):.!?])\*\*(?!\w)|^#+ +|^```.*$", re.MULTILINE)
_WORD = re.compile(r"\w+")


def asked(tx: Tx, row: Row) -> str:
    """Return what had been asked when an observation was made: its last prompt that says something by itself."""
    numbers = range(max(1, row["prompt_number"] - MAX_PROMPTS + 1), row["prompt_number"] + 1)
    found = (prompts.by_number(tx, row["session_id"], number) for number in numbers)
    said = telling([prompt.prompt for prompt in found if prompt and prompt.prompt])
    return cut(said[-1], ASKED) if said else ""


def answered(tx: Tx, row: Row) -> str:
    """Return the part of the answer in which an observation was said, else how the answer begins."""
    replies = turns.of_round(tx, row["session_id"], row["prompt_number"])
    last = next((turn.text for turn in reversed(replies) if turn.text), "")
    return passage(last, row["title"])


def passage(text: str, title: str) -> str:
    """Return the lines of a text around a title in it, else its first lines, as one line. A list is told with the line
    that announces it."""
    text = _MARKUP.sub("", text).strip()
    # A title may begin with its heading, and its first letter may be another than in the text.
    place = _place(text, title) or _place(text, title.partition(": ")[2])
    if place is None or place.end() <= ANSWERED:
        return cut(one_line(text), ANSWERED)
    earliest = place.start() - ANSWERED // 2
    start = text.find("\n", earliest, place.start())
    return "…" + cut(one_line(text[earliest if start < 0 else start :]), ANSWERED - 1)


def _place(text: str, title: str) -> re.Match[str] | None:
    words = r"\W+".join(map(re.escape, _WORD.findall(title)[:FIRST_WORDS]))
    return re.search(rf"\b{words}\b", text, re.IGNORECASE) if words else None
