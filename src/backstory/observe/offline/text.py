"""Text as memory keeps it: clean, bounded, on one line, without markdown, escapes or fences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: What is read of one output; beyond it only the head and the tail, where results stand.
OUTPUT_LIMIT = 120_000

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Control, bidirectional and zero-width characters hide or reorder text; lone surrogates cannot be stored.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_FENCES = re.compile(r"`{3,}|~{3,}")
# Tags that mean something to an agent or to us: quoted content must not open or close one.
_TAGS = re.compile(
    r"<(?=/?(?:system|private|backstory|claude-mem|local-command|command-|task-notification|observation|summary|"
    r"function_|antml)[\w:-]*)",
    re.IGNORECASE,
)
_REMINDERS = (
    "system-reminder",
    "local-command-caveat",
    "local-command-stdout",
    "task-notification",
    "ide_selection",
    "ide_opened_file",
)


def clean_output(text: str) -> str:
    """A command's output without escapes and overwritten progress lines, head and tail if it is long."""
    if len(text) > OUTPUT_LIMIT:
        half = OUTPUT_LIMIT // 2
        text = f"{text[:half]}\n{text[-half:]}"
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    return text


def clip(text: str, limit: int) -> str:
    """The text within limit, never cut inside a word; a cut ends with an ellipsis."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 2]  # room for the ellipsis and a closing backtick
    space = cut.rfind(" ")
    if space >= max(
        min(limit * 0.6, limit - 40), 1
    ):  # text without spaces (CJK, one long path) is cut where it must be
        cut = cut[:space]
    cut = cut.rstrip(" ,;:.-–—([{")
    if cut.count("`") % 2:
        return f"{cut[:-1].rstrip()}…" if cut.endswith("`") else f"{cut}…`"
    return f"{cut}…"


def tidy(text: str, limit: int) -> str:
    """One safe line of at most limit characters: every string of an observation has passed here."""
    line = " ".join(text[: limit * 6 + 400].split())
    line = _UNSAFE.sub("", _ANSI.sub("", line))
    line = _TAGS.sub("‹", _FENCES.sub("'''", line))
    return clip(line.strip(), limit)


def code(text: str, limit: int = 80) -> str:
    """A snippet in backticks that it cannot close."""
    line = tidy(text, limit).replace("`", "'")
    return f"`{line}`" if line else ""


def without_reminders(text: str) -> str:
    """The text without blocks that the agent's own machinery put into it."""
    for name in _REMINDERS:
        text = _without_block(text, f"<{name}", f"</{name}>")
    return text


def _without_block(text: str, opening: str, closing: str) -> str:
    if opening not in text:
        return text
    kept, at = [], 0
    while (start := text.find(opening, at)) >= 0:
        kept.append(text[at:start])
        end = text.find(closing, start)
        if end < 0:  # unclosed: what follows is not the speaker's
            return "".join(kept)
        at = end + len(closing)
    return "".join([*kept, text[at:]])


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a list item or a heading of a message, plain."""

    kind: str  #: text, item, heading
    text: str


ITEM = re.compile(r"\s{0,12}(?:[-*+•‣]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
HEADING = re.compile(r"\s{0,3}#{1,6}\s+")
BOLD_LINE = re.compile(r"\*\*([^*]{1,120})\*\*:?$")
_LINK = re.compile(r"!?\[([^\]\n]{1,300})\]\([^)\s]{1,500}\)")
_EMPHASIS = re.compile(r"(?<![\w*])\*([^*\s][^*\n]{0,200}?)\*(?![\w*])")
RULE = re.compile(r"\s{0,3}(?:[-*_=]\s?){3,}$")
_MESSAGE_LIMIT = 40_000


def plain(line: str) -> str:
    """A line of markdown without its marks; code keeps its backticks."""
    line = line.lstrip("> ") if line.startswith(">") else line
    line = _LINK.sub(r"\1", line) if "](" in line else line
    line = line.replace("**", "").replace("__", "" if line.count("__") > 1 and " __" in line else "__")
    return _EMPHASIS.sub(r"\1", line).strip() if "*" in line else line.strip()


def blocks(message: str) -> list[Block]:
    """A message's paragraphs, items and headings; code and tables are left out."""
    found: list[Block] = []
    kind, lines = "text", list[str]()

    def close() -> None:
        if text := " ".join(lines):
            found.append(Block(kind, text))
        lines.clear()

    for line in prose_lines(message):
        heading = HEADING.match(line)
        bold = BOLD_LINE.match(line.strip())
        if not line.strip() or RULE.match(line):
            close()
            kind = "text"
        elif heading or bold:
            close()
            title = plain(line[heading.end() :] if heading else bold.group(1) if bold else line)
            found.append(Block("heading", title.strip("#: ")))
            kind = "text"
        elif item := ITEM.match(line):
            close()
            kind = "item"
            lines.append(plain(line[item.end() :]))
        else:
            text = plain(line)
            number = ITEM.match(text) if line.startswith("**") else None
            lines.append(text[number.end() :] if number else text)
    close()
    return found


def prose_lines(message: str) -> Iterator[str]:
    """The lines of a message that are not code or a table."""
    fenced = ""
    for line in without_reminders(message[:_MESSAGE_LIMIT]).split("\n"):
        mark = line.lstrip()[:3]
        if fenced:
            fenced = "" if mark == fenced else fenced
        elif mark in ("```", "~~~"):
            fenced = mark
        elif not mark.startswith("|"):
            yield line[:2000]


# An end of a sentence: not after a digit's or a short form's dot, at once in scripts that set no spaces.
_SENTENCE_END = re.compile(
    r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bcf\.)(?<!\b\d\.)(?<=[.!?…])[\"'”’)*`]{0,2}\s+(?=\S)|(?<=[。！？])"
)


def sentences(text: str) -> list[str]:
    """The sentences of a plain text."""
    return [part.strip() for part in _SENTENCE_END.split(text[:_MESSAGE_LIMIT]) if part and part.strip()]


def joined(names: Iterable[str], most: int = 4) -> str:
    """Names in one phrase: `a, b and 3 more`."""
    unique = list(dict.fromkeys(name for name in names if name))
    shown = unique[:most]
    rest = len(unique) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def plural(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
