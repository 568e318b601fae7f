"""Redacts blocks of private keys (PEM, PGP, PuTTY): complete, truncated, or split over the elements of a list."""

from __future__ import annotations

try:
    from .private_tags import compiled
except ImportError:  # the hook has only this directory on its path
    from private_tags import compiled  # type: ignore[no-redef,import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Line = tuple[int, int, int]  # index of the text, start and end in it

MARK = "[redacted:private-key]"
#: Base64 of the fixed bytes at the start of a key: OpenSSH, PKCS #1, PKCS #8, EC, Ed25519.
DER = ("b3BlbnNzaC1rZXkt", "IBAAKCA", "IBADANBgkq", "MHcCAQEEI", "MC4CAQAwBQYDK2Vw")
#: Every block contains one of these.
LITERALS = ("PRIVATE KEY", "Private-Lines:", *DER)
BLANKS = 6  # maximum header lines and empty lines before the first line of a key

_LABEL = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_NEWLINE = r"\r?\n|\\{1,16}[nr]"  # literal or escaped
_BEGIN = rf"-----BEGIN {_LABEL}|Private-Lines: \d{{1,4}}(?=[\s\"'\\]|\Z)"
_END = rf"-----END {_LABEL}"
_DER_LINE = (
    r"(?<![A-Za-z0-9+/])(?:b3BlbnNzaC1rZXkt|MII[A-Za-z0-9+/]{3}IBAAKCA|MII[A-Za-z0-9+/]{3}IBADANBgkq|MHcCAQEEI|"
    r"MC4CAQAwBQYDK2Vw)[A-Za-z0-9+/]{16,}={0,2}"
)
#: Characters that a listing, a diff, a quotation or source code adds around a line.
_BEFORE = r"[\s\d→:|+\-\"'`,>*#]{0,40}?"
_AFTER = r"[\s\"'`,;+\\)]{0,20}\Z"
_KEY = rf"{_BEFORE}[A-Za-z0-9+/]{{16,}}={{0,2}}{_AFTER}"
_SHORT = rf"{_BEFORE}=?[A-Za-z0-9+/]{{1,15}}={{0,2}}{_AFTER}"  # the last line of a key, or its checksum
_HEADER = rf"{_BEFORE}(?:[A-Z][A-Za-z-]{{2,24}}: ?[^\n]{{0,200}})?{_AFTER}"


def redact_lines(texts: Sequence[str]) -> list[str]:
    """Redact private keys in a text, or in consecutive ones, such as the lines of a patch."""
    clean = list(texts)
    if not any(literal in text for text in texts for literal in LITERALS):
        return clean
    spans: list[list[tuple[int, int]]] = [[] for _ in texts]
    for number, start, end in _key_lines(texts, _lines(texts)):
        own = spans[number]
        if own and start - own[-1][1] <= 32 and compiled(_NEWLINE).match(texts[number], own[-1][1]):
            own[-1] = (own[-1][0], end)
        else:
            own.append((start, end))
    for number, own in enumerate(spans):
        for start, end in reversed(own):
            clean[number] = clean[number][:start] + MARK + clean[number][end:]
    return clean


def _lines(texts: Sequence[str]) -> list[Line]:
    lines: list[Line] = []
    for number, text in enumerate(texts):
        start = 0
        for newline in compiled(_NEWLINE).finditer(text):
            lines.append((number, start, newline.start()))
            start = newline.end()
        lines.append((number, start, len(text)))
    return lines


def _key_lines(texts: Sequence[str], lines: list[Line]) -> list[Line]:
    """Return the parts of lines that belong to keys, in order."""
    parts: list[Line] = []
    index = taken = 0  # lines before `taken` belong to an earlier key
    while index < len(lines):
        number, start, end = lines[index]
        text = texts[number]
        block: list[Line] = []
        if begin := compiled(_BEGIN).search(text, start, end):
            block, index = _block(texts, lines, index, begin.start(), begin.end())
        elif closing := compiled(_END).search(text, start, end):
            block = _block_before(texts, lines, taken, index, closing.start(), closing.end())
        elif der := compiled(_DER_LINE).search(text, start, end):
            block, index = _block(texts, lines, index, der.start(), der.start())
        if block:
            parts += block
            taken = index + 1
        index += 1
    return parts


def _block(texts: Sequence[str], lines: list[Line], index: int, start: int, label: int) -> tuple[list[Line], int]:
    """Return the parts of the block that starts here and the index of its last line. No parts if no key follows."""
    number, _, end = lines[index]
    if closing := compiled(_END).search(texts[number], label, end):
        inside = closing.start() - label > 20
        return ([(number, start, closing.end())] if inside else []), index
    rest = texts[number][label:end]
    has_key = bool(compiled(r"[\s\"'`,]{0,8}[A-Za-z0-9+/]{16}").match(rest))
    if not has_key and not compiled(_AFTER).match(rest):
        return [], index  # the label is part of a sentence or of code
    parts, last, blanks = [(number, start, end)], index, 0
    for following in range(index + 1, len(lines)):
        number, begin, end = lines[following]
        line = texts[number][begin:end]
        if closing := compiled(_BEFORE + _END).match(line):
            parts.append((number, begin, begin + closing.end()))
            last = following
            break
        if compiled(_KEY).match(line):
            has_key, blanks = True, 0
        elif not (_is_short(texts, lines, following) if has_key else compiled(_HEADER).match(line)) or blanks > BLANKS:
            break
        else:
            blanks += 1
        parts.append((number, begin, end))
        last = following
    return (_without_diff_marks(texts, parts) if has_key else []), (last if has_key else index)


def _is_short(texts: Sequence[str], lines: list[Line], index: int) -> bool:
    """Whether a line can be part of a key although it is short: the last line, or a separator between strings in
    source code."""
    number, start, end = lines[index]
    line = texts[number][start:end]
    following = lines[index + 1] if index + 1 < len(lines) else (number, end, end)
    is_end = "-----END" in texts[following[0]][following[1] : following[2]]
    if not line.strip(" \t+-\"'`,"):
        return is_end or _match(_KEY, texts, following)
    return _match(_SHORT, texts, lines[index]) and ("=" in line or is_end)


def _match(pattern: str, texts: Sequence[str], line: Line) -> bool:
    return bool(compiled(pattern).match(texts[line[0]][line[1] : line[2]]))


def _block_before(texts: Sequence[str], lines: list[Line], first: int, index: int, start: int, end: int) -> list[Line]:
    """Return the parts of a block that has only its end: the base64 lines before the END line, and that line."""
    number, begin, _ = lines[index]
    parts = [(number, start if texts[number][begin:start].strip(" +-") == "" else begin, end)]
    has_key = bool(compiled(r"[A-Za-z0-9+/]{16}").search(texts[number], begin, start))
    for previous in range(index - 1, first - 1, -1):
        if _match(_KEY, texts, lines[previous]):
            has_key = True
        elif not (previous == index - 1 and _match(_SHORT, texts, lines[previous])):
            break
        parts.insert(0, lines[previous])
    return _without_diff_marks(texts, parts) if has_key else []


def _without_diff_marks(texts: Sequence[str], parts: list[Line]) -> list[Line]:
    """Exclude the `+`, `-` or space of a patch from parts that start a text."""
    trimmed = []
    for number, start, end in parts:
        text = texts[number][start:end]
        marked = start == 0 and text[:1] in ("+", "-", " ") and not text.startswith("-----B")
        if end > start + marked:
            trimmed.append((number, start + marked, end))
    return trimmed
