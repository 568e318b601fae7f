"""Finds the value that belongs to a name: separators, type annotations, quotes, colours, prose.

Knows the grammar of an assignment rather than languages: a name, possibly a type, a separator, a value. Uses string
methods only, because the hook runs it. Each step examines a window of bounded size.
"""

try:
    from .secret_values import ANY, DIGITS, LETTERS, NAME, OPAQUE, is_certain
except ImportError:  # the hook has only this directory on its path
    from secret_values import ANY, DIGITS, LETTERS, NAME, OPAQUE, is_certain  # type: ignore[no-redef,import-not-found]

NAME_WINDOW = 48  # characters of a name on either side of its stem
MAX_SPACES = 20  # characters between name, separator and value
LONGEST_QUOTED = 4096  # characters of a value in quotes
LONGEST_PLAIN = 600  # characters of a value without quotes
LONGEST_TYPE = 80  # characters between a name and the `=` after its type
LONGEST_COLOUR = 24  # characters of the escape for a colour
COLOURS = 4  # escapes for colours in a row
PAIR_WINDOW = 200  # characters between a name and the field that has its value
TOLD_WINDOW = 120  # characters between a name and its value in a sentence
TOLD_WORDS = 12  # words of them

_QUOTES = ("'", '"', "`")
_ESCAPED = frozenset("nrtu\"'`")  # characters after the backslash of an escape
_BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}
_PREFIXES = ("[]byte(", "rb", "br", "b", "r", "u", "f", "N", "L", "@")  # of string literals: []byte("…"), b"…", N'…'
_SIGNS = ("<-", "?=", "||=", "??=", "+=")  # signs of assignments that do not begin with `=` or `:`
#: Commands that set the variable that follows: ENV NAME value, setx NAME value, set -gx NAME value.
_SETTERS = ("env ", "setx ", "setx /m ", "setenv ", "set -gx ", "set -x ", "set -ux ", "set -xg ", "set -xu ")
_COLOUR_STARTS = ("\x1b[", "u001b[", "x1b[", "033[", "e[")
#: Fields that have the value of a name in another field: {"name": "DB_PASSWORD", "value": "…"}.
_VALUE_FIELDS = ("value", "default", "--body", "-b ", "string>", "send ")
_WRAPS = "\\\"'`*|"  # around words of a sentence
_ENDS_OF_SENTENCES = (
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    '",',
    '":',
    "',",
    "':",
    '\\"',
    "=",
)  # of a sentence: code or data begins
_LINKS = frozenset(
    ["is", "was", "to", "be", "as", "=", ":", "->", "=>", "ist", "lautet"]
)  # words before the value in a sentence
_ABOUT_WORDS = frozenset(
    [
        "length",
        "policy",
        "hash",
        "field",
        "format",
        "type",
        "file",
        "path",
        "url",
        "reset",
        "prompt",
        "count",
        "size",
        "name",
    ]
)


# Names


class Name:
    """A name in a text: its parts before and after the stem, and its position."""

    def __init__(self, text: str, at: int, stem: str, tail: str) -> None:
        self.stem, self.tail = stem, tail
        self.before = _before(text, at)
        self.begin, self.end = at - len(self.before), at + len(stem) + len(tail)
        self.is_upper = text[at : at + len(stem)].isupper()
        self.whole = (self.before + stem + tail).lower()
        # Whether the stem begins a word of its own: `db_pass`, `dbPass`, not `bypass`.
        last = self.before[-1:]
        self.begins_word = (
            not last or last in "_-" or self.before.startswith("--") or (text[at].isupper() and not last.isupper())
        )


def _before(text: str, at: int) -> str:
    """Return the part of a name before its stem."""
    window = text[max(0, at - NAME_WINDOW) : at]
    run = window[len(window.rstrip(NAME)) :]
    return without_escape(window[: len(window) - len(run)][-1:], run)


def without_escape(sign: str, run: str) -> str:
    r"""Remove the rest of an escape (\n, \u000a, %3D, a colour) from the start of a word; `sign` precedes the word."""
    if sign == "\\":
        return run[5:] if run[:1] == "u" else run[1:]
    if sign == "%":
        return run[2:]
    if sign in ("[", ";") and run.lstrip(DIGITS)[:1] == "m":
        return run.lstrip(DIGITS)[1:]
    return run


# Separators


def _spaces(text: str, at: int) -> int:
    r"""Return the number of whitespace characters at a position. Escaped tabs and colours count as whitespace."""
    if text[at : at + 1] not in (" ", "\t", "\\", "\x1b"):
        return 0
    start = at
    for _ in range(COLOURS):
        window = text[at : at + MAX_SPACES]
        at += len(window) - len(window.lstrip(" \t"))
        while at - start <= MAX_SPACES and text.startswith(("\\t", "\\\\t"), at):
            at += 2 if text[at + 1] == "t" else 3
        colour = _colour(text, at)
        if not colour:
            break
        at += colour
    return at - start


def skip(text: str, at: int) -> int:
    """Return the position after whitespace and colours."""
    return at + _spaces(text, at)


def _colour(text: str, at: int) -> int:
    r"""Return the length of the escape for a colour at a position: \x1b[32m, also written as \u001b[32m."""
    if text[at : at + 1] not in ("\x1b", "\\"):
        return 0
    window = text[at : at + LONGEST_COLOUR]
    inner = window.lstrip("\\")
    start = next((one for one in _COLOUR_STARTS if inner.startswith(one)), "")
    rest = inner[len(start) :].lstrip(DIGITS + ";")
    return len(window) - len(rest) + 1 if start and rest[:1] == "m" else 0


def separator(text: str, low: str, name: Name) -> tuple[int, str]:
    """Return the position after the separator that follows a name, and the separator; empty if there is none."""
    at = name.end + _colour(text, name.end)
    window = text[at : at + 9]
    slashes = len(window) - len(window.lstrip("\\"))
    is_quoted = window[slashes : slashes + 1] in _QUOTES
    if is_quoted:
        at += slashes + 1
        at += text[at : at + 1] in ("]", ")")
    after = at + _spaces(text, at)
    length, sign = _sign(text[after : after + 4], is_quoted, name.is_upper, after == name.end)
    if length:
        return after + length, sign
    if is_quoted and low.startswith("value=", after):  # <add key="Password" value="…">
        return after + 6, "="
    return _rare_separator(text, low, name, after)


def _sign(signs: str, is_quoted: bool, is_upper: bool, is_next: bool) -> tuple[int, str]:
    """Return the length of a sign that separates name and value, and its kind; 0 if there is none."""
    if signs[:1] == "=" or signs[:2] == ":=":
        return len(signs) - len(signs.lstrip(":=").removeprefix(">")), "="
    if (signs[:1] == ":" and signs[1:2] != ":") or (signs[:1] == "," and (is_quoted or is_upper)):
        return 1, signs[0]
    if (signs[:1] == ">" and is_quoted) or (signs[:1] == "(" and is_next):  # <string name="password">…</string>
        return 1, signs[0]
    return next(((len(sign), "=") for sign in _SIGNS if signs.startswith(sign)), (0, ""))


def _rare_separator(text: str, low: str, name: Name, after: int) -> tuple[int, str]:
    """The same for `<password>…</password>`, `--password …` and .netrc files."""
    if after == name.end:
        is_element = text[after : after + 1] == ">" and text[name.begin - 1 : name.begin] == "<"
        return (after + 1, ">") if is_element else (0, "")
    window = low[max(0, name.begin - 160) : name.begin]
    is_netrc = not name.before and "login " in window and ("machine " in window or "default" in window)
    is_option = name.before.startswith("-") and not name.tail.endswith(("s", "S"))
    if not is_netrc and not is_option and name.is_upper and window.endswith(_SETTERS):
        return after, "set"
    return (after, "login" if is_netrc else " ") if is_option or is_netrc else (0, "")


# Values


def extent(text: str, at: int, sign: str, ahead: str) -> tuple[int, int, bool]:
    """Return start and end of a value, and whether it is quoted. Backticks do not count: they also quote code."""
    prefixed = text[at : at + 12]
    prefix = next((one for one in _PREFIXES if prefixed.startswith(one) and _opens(prefixed[len(one) :])), "")
    at += len(prefix)
    window = text[at : at + 9]
    depth = len(window) - len(window.lstrip("\\"))
    if _opens(window):
        quote, at = window[depth], at + depth + 1
        end = _closing(text, at, quote, depth)
        if end >= 0:
            is_template = prefix == "f" and "{" in text[at:end]
            return at, at if is_template else end, quote != "`"
    parts = text[at : at + LONGEST_PLAIN].split(None, 1)
    if not parts or text[at].isspace():
        return at, at, False
    return at, at + len(_plain(parts[0], sign, ahead)), False


def _opens(window: str) -> bool:
    return window.lstrip("\\")[:1] in _QUOTES


def _closing(text: str, start: int, quote: str, depth: int) -> int:
    """Return the end of a value whose opening quote has `depth` backslashes before it; -1 if there is none."""
    limit = start + LONGEST_QUOTED
    end = text.find(quote, start, limit)
    while end >= 0:
        window = text[max(start, end - 64) : end]
        slashes = len(window) - len(window.rstrip("\\"))
        if slashes % (2 * depth + 2) == depth:
            return end - depth if "\n" not in text[start:end] else -1
        end = text.find(quote, end + 1, limit)
    return -1


def _plain(run: str, sign: str, ahead: str) -> str:
    """Return the part of a run without spaces that is the value."""
    for mark in (*_QUOTES, "\x1b", "</", "<" if sign == ">" else "</"):
        run = run.partition(mark)[0]
    if ahead in ("?", "&"):  # query of a URL
        run = run.partition("&")[0].partition("#")[0]
    run = _before_next(_unescaped(run))
    while run and (run[-1] in ",;." or _is_unbalanced(run)):
        run = run[:-1]
    return run


def _unescaped(run: str) -> str:
    r"""Truncate a run at the first escape (\n, \"), or at trailing backslashes."""
    at = run.find("\\")
    while at >= 0:
        following = run[at:].lstrip("\\")
        if not following or following[0] in _ESCAPED:
            return run[:at]
        at = run.find("\\", at + 1)
    return run


def _before_next(run: str) -> str:
    """Truncate a run before the next assignment: Password=…;Database=shop."""
    for mark in ";,&":
        at = run.find(mark)
        while at >= 0:
            following = run[at + 1 :].lstrip(LETTERS)
            if following[:1] == "=" and len(run) - at > len(following) + 2:
                run = run[:at]
            at = run.find(mark, at + 1)
    return run


def _is_unbalanced(run: str) -> bool:
    opening = _BRACKETS.get(run[-1], "")
    return opening != "" and run.count(opening) < run.count(run[-1])


# Values that are further away


def typed(text: str, name: Name) -> int:
    """Return the position of a quoted value after a type: `name: str = "…"`, `name As String = "…"`; 0 if none."""
    window = text[name.end : name.end + LONGEST_TYPE]
    head, sign, rest = window.partition("=")
    if not sign or head[:1] not in (" ", ":", "!", "?", "[", "{") or rest[:1] in ("=", "~"):
        return 0
    is_block = head.lstrip()[:1] == "{"  # public string Name { get; set; } = "…"
    if head[-1] in "!<>" or any(one in head for one in '"`\n\\') or (";" in head and not is_block):
        return 0
    if not is_block and ":" not in head[:3] and len(head.split()) > 2:
        return 0
    at = name.end + len(head) + 1
    at += text[at : at + 1] == ">"
    at += _spaces(text, at)
    return at if _opens(text[at : at + 9].lstrip("@bruNL")) else 0


def paired(text: str, low: str, name: Name) -> tuple[int, str]:
    """Return the position of the value in the field beside the one with the name, and what precedes it."""
    window = low[name.end : name.end + PAIR_WINDOW]
    is_quoted = window.lstrip("\\")[:1] in _QUOTES
    ahead = low[max(0, name.begin - PAIR_WINDOW) : name.begin]
    if not (is_quoted or ahead[-9:].rstrip().endswith((":", "name", "set", ">")) or "--name" in ahead[-60:]):
        return 0, ""
    for field in _VALUE_FIELDS:
        at = window.find(field)
        if at < 1 or window[at - 1] in LETTERS or "}" in window[:at] or "name" in window[:at]:
            continue
        if found := _after_field(text, name.end + at, field):
            return found
    at = ahead.rfind("value") if is_quoted and ahead.rstrip("\\\"' ").endswith(":") else -1
    if at >= 0 and "}" not in ahead[at:] and "{" not in ahead[at:]:
        return _after_field(text, name.begin - len(ahead) + at, "value") or (0, "")
    return 0, ""


def _after_field(text: str, at: int, field: str) -> "tuple[int, str] | None":
    """Return the position after the name of a field, and what kind of value follows; None if none does."""
    after = at + len(field)
    rest = text[after : after + 9].lstrip("\\\"'` \t")
    if rest[:1] in (":", "="):
        after = text.index(rest[0], after) + 1
    elif rest[:1] == ">" and text[at - 1 : at] in ("<", "-"):
        return text.index(">", after) + 1, ">"
    elif field in ("value", "default") and text[at - 2 : at] != "--":
        return None
    return after + _spaces(text, after), ">" if field == "string>" else "="


def told(text: str, name: Name, level: int, unsure: bool) -> "tuple[int, int] | None":
    """Return the span of a value in the sentence, table or command that the name is part of: the password is …"""
    line = text[name.end : name.end + TOLD_WINDOW].partition("\n")[0].partition("\\n")[0].replace("\\t", "  ")
    position, links = 0, True
    for word in line.split(None, TOLD_WORDS)[:TOLD_WORDS]:
        position = line.index(word, position)
        shown = word.lstrip(_WRAPS)
        start = name.end + position + len(word) - len(shown)
        shown = _before_wrap(shown)
        if links and ((unsure and "\\u" in word) or is_certain(shown, level)):
            return start, start + len(shown)
        position += len(word)
        if word[-1] in ".;" or shown.lower() in _ABOUT_WORDS:
            return None
        if any(one in word for one in _ENDS_OF_SENTENCES):
            return None
        is_kind = len(word) == 1 and word in DIGITS  # username bob password 7 …
        links = not shown or word[-1] in ":=|" or shown.lower() in _LINKS or (is_kind and position < 4)
    return _below(text, name.end + len(line), level) if line.rstrip().endswith(":") else None


def _below(text: str, at: int, level: int) -> "tuple[int, int] | None":
    """Return the span of a random value that stands alone below the sentence that announces it."""
    window = text[at : at + TOLD_WINDOW]
    below = window.replace("\\r", "  ").replace("\\n", "  ").lstrip()
    start = at + len(window) - len(below)
    value = "".join(below.split(None, 1)[:1]).partition('"')[0]
    return (start, start + len(value)) if level == ANY and is_certain(value, OPAQUE) else None


def _before_wrap(word: str) -> str:
    """Return a word of a sentence without what wraps it and what follows."""
    for mark in ('"', "'", "`", "|", "\\", "**", "\x1b"):
        word = word.partition(mark)[0]
    return word.rstrip(",;:.)")
