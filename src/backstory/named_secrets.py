"""Finds secrets by the name before them: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`, `<secret>…</secret>`.

Uses string methods only, because the hook runs it on every payload that assigns a value to such a name. Each step
examines a window of bounded size, so the time is linear in the length of the text.
"""

try:
    from .secret_values import ANY, DIGITS, LETTERS, LONGEST_LOOK, MIXED, NAME, OPAQUE, is_secret, words
except ImportError:  # the hook has only this directory on its path
    from secret_values import ANY, DIGITS, LETTERS, LONGEST_LOOK, MIXED, NAME, OPAQUE, is_secret, words  # type: ignore[no-redef,import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    #: Cache: (value, level, quoted, certain) -> whether it is a secret.
    _Cache = dict[tuple[str, int, bool, bool], bool]

#: Every name of a secret contains one of these.
STEMS = ("pass", "pwd", "secret", "token", "credential", "auth", "key", "_pat")

NAME_WINDOW = 48  # characters of a name on either side of its stem
MAX_SPACES = 20  # characters between name, separator and value
LONGEST_QUOTED = 4096  # characters of a value in quotes
LONGEST_PLAIN = 600  # characters of a value without quotes

_QUOTES = ("'", '"', "`")
_NAME_ENDS = frozenset(" \t\\\"'`])=:>,?")
_ESCAPED = frozenset("nrtu\"'`")  # characters after the backslash of an escape
_BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}
_PREFIXES = ("[]byte(", "rb", "br", "b", "r", "u", "f")  # of string literals: []byte("…"), b"…"

_ABOUT_AFTER_WORDS = (
    "count type name len length size limit max min ttl url uri path file files dir id ids field label hint policy "
    "class prefix suffix regex re pattern format header usage budget status error errors message required version "
    "kind expires expired expiry expiration at in index position start end rule rules algorithm method mode manager "
    "provider service endpoint param params column input form help text title var arn ref scope env list set map is "
    "reset validators hashers placeholder strength rotation generator store storage vault fingerprint thumbprint "
    "prompt stdin stream ring pair board word words code codes press up down frame space alias bindings binding "
    "schema selector validator callback function func handler option options order per usd cost price rate window "
    "range ratio"
)
#: Words after the stem that show that the value is not the secret itself: `token_count`, `password_field`.
_ABOUT_AFTER = frozenset(_ABOUT_AFTER_WORDS.split())
_ABOUT_BEFORE_WORDS = (
    "forgot forgotten reset change show hide toggle has is no not invalid wrong missing requires require required "
    "without next page continuation pad eos bos unk sep mask stop special max min num total input output pub primary "
    "foreign sort partition row cache map object item group join unique natural composite hash hot short idempotency "
    "dedup index idx lookup storage state config settings json yaml dict column field bucket translation i18n message "
    "react list first last new old any each every by prompt completion reasoning cached thinking syntax keyword "
    "operator"
)
#: The same for words before the stem: `forgot_password`, `next_token`, `primary_key`.
_ABOUT_BEFORE = frozenset(_ABOUT_BEFORE_WORDS.split())
#: Words before `key` that make it a secret.
_KEY_KINDS = (
    *("api", "access", "private", "account", "signing", "encryption", "master", "auth", "secret", "app", "license"),
    *("deploy", "service", "consumer", "client", "shared", "session", "aes", "hmac", "jwt", "admin", "subscription"),
    *("security", "write", "salt", "crypto", "cipher", "ssh", "ssl", "tls", "rsa", "application", "oauth", "server"),
)
#: What may follow the stem without a separator.
_GLUED = ("s", "key", "value", "hash", "base", "data", "keybase")


def find_spans(text: str, low: str) -> "Iterator[tuple[int, int]]":
    """Yield start and end of each secret value. `low` is the text in lower case."""
    cache: _Cache = {}
    for stem in STEMS:
        at = low.find(stem)
        while at >= 0:
            end = at + len(stem)
            if span := _span_at(text, low, at, stem, False, cache):
                yield span
                end = span[1]
            at = low.find(stem, end)


def is_secret_at(text: str, low: str, positions: "list[tuple[int, str]]") -> bool:
    """Whether any of these stems names a secret. The text is a document that is still escaped."""
    cache: _Cache = {}
    return any(_span_at(text, low, at, stem, True, cache) for at, stem in positions)


def _span_at(text: str, low: str, at: int, stem: str, unsure: bool, cache: "_Cache") -> "tuple[int, int] | None":
    """Return the span of the secret that this stem names. If `unsure`, values with escapes count as secrets."""
    end = at + len(stem)
    window = text[end : end + NAME_WINDOW]
    rest = window.lstrip(NAME)
    if not rest or rest[0] not in _NAME_ENDS:
        return None
    return _value(text, low, _Name(text, at, stem, window[: len(window) - len(rest)]), unsure, cache)


class _Name:
    """A name in a text: its parts before and after the stem, and its position."""

    def __init__(self, text: str, at: int, stem: str, tail: str) -> None:
        self.stem, self.tail = stem, tail
        self.before = _before(text, at)
        self.begin, self.end = at - len(self.before), at + len(stem) + len(tail)
        self.is_upper = text[at : at + len(stem)].isupper()
        # Whether the stem begins a word of its own: `db_pass`, `dbPass`, not `bypass`.
        last = self.before[-1:]
        self.begins_word = not last or last in "_-" or (text[at].isupper() and not last.isupper())


def _value(text: str, low: str, name: _Name, unsure: bool, cache: "_Cache") -> "tuple[int, int] | None":
    """Return the span of the secret that is assigned to a name."""
    start, sign = _separator(text, low, name)
    if not sign:
        return None
    # NAME=value without spaces: a configuration file, not code
    tight = sign == "=" and text[name.end] == "=" and not text[start : start + 1].isspace()
    level = _level(name, tight)
    if not level:
        return None
    start += _spaces(text, start)
    start, end, quoted = _extent(text, start, sign, text[max(0, name.begin - 1) : name.begin])
    level = _level_of_value(text, name, sign, level, end, quoted)
    if not level or end <= start:
        return None
    certain = sign == "login" or (tight and not quoted and (name.is_upper or _is_line(text, name.begin, end)))
    value = text[start : min(end, start + LONGEST_LOOK)]
    case = (value, level, quoted, certain)
    if case not in cache:
        cache[case] = (unsure and ("\\u" in value or not value.isascii())) or is_secret(*case)
    return (start, end) if cache[case] else None


def _level_of_value(text: str, name: _Name, sign: str, level: int, end: int, quoted: bool) -> int:
    """Return the level for the name together with separator and quotes."""
    if sign == ",":
        return OPAQUE if quoted else 0
    if sign == ">":
        return level if text.startswith(("</", "<\\/"), end) else 0
    if name.stem == "pass" and level == OPAQUE:
        return MIXED if quoted or sign == "=" else 0  # excludes `PASS: TestName`
    return level


def _is_line(text: str, begin: int, end: int) -> bool:
    r"""Whether an assignment takes a whole line, as in an .env file: name=value, also after `export`."""
    ahead = text[max(0, begin - 12) : begin].removesuffix("export ")
    behind = text[end : end + 2]
    starts = not ahead or ahead.endswith(("\n", "\\n", "\n+", "\\n+", "\n-", "\\n-", "→", '"'))
    ends = behind[:1] in ("", "\n", "\r") or behind in ("\\n", "\\r") or (behind[:1] == '"' and ahead.endswith('"'))
    return starts and ends


# Names


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


def _level(name: _Name, tight: bool) -> int:
    """Return ANY, MIXED or OPAQUE for a name of a secret; 0 for other names."""
    ahead, tail = words(name.before), name.tail
    is_password = False
    if name.stem == "pass":
        for rest in ("phrase", "word", "wd", "w"):
            if tail.lower().startswith(rest):
                tail, is_password = tail[len(rest) :], True
                break
    elif name.stem == "auth" and tail.lower().startswith("orization"):
        tail = tail[9:]
    if ahead and (ahead[-1] in _ABOUT_BEFORE or "public" in ahead):
        return 0
    if not _names_value(tail, is_password or name.stem in ("secret", "credential")):
        return 0
    if is_password or name.stem == "secret":
        return ANY
    return _level_of_stem(name, ahead, tight)


def _level_of_stem(name: _Name, ahead: list[str], tight: bool) -> int:
    stem = name.stem
    if stem in ("token", "credential"):
        return MIXED
    if stem == "_pat":
        return MIXED if tight and name.is_upper and not name.tail else 0
    if stem == "key":
        return _level_of_key(name, ahead, tight)
    if not name.begins_word and name.before[-1:].lower() + stem != "oauth":
        return 0
    return ANY if stem == "pwd" or (stem == "pass" and ahead) else OPAQUE


def _level_of_key(name: _Name, ahead: list[str], tight: bool) -> int:
    last = ahead[-1] if ahead else ""
    if last in _KEY_KINDS or (not name.begins_word and last.endswith(_KEY_KINDS)):
        return MIXED
    if not name.begins_word:
        return 0  # monkey
    return MIXED if ahead and tight and name.is_upper else OPAQUE


def _names_value(tail: str, may_be_many: bool) -> bool:
    """Whether a name with this tail after its stem still refers to the secret itself."""
    first, low = tail[:1], tail.lower().replace("_", "").replace("-", "")
    if first.isalpha() and low in _GLUED:
        return may_be_many or low != "s"
    if first.islower() or (first.isupper() and tail.isupper()):
        return False
    return _ABOUT_AFTER.isdisjoint(words(tail))


# Separators


def _spaces(text: str, at: int) -> int:
    r"""Return the number of whitespace characters at a position. Escaped tabs count as whitespace."""
    if text[at : at + 1] not in (" ", "\t", "\\"):
        return 0
    window = text[at : at + MAX_SPACES]
    spaces = len(window) - len(window.lstrip(" \t"))
    while spaces <= MAX_SPACES and text.startswith(("\\t", "\\\\t"), at + spaces):
        spaces += 2 if text[at + spaces + 1] == "t" else 3
    return spaces


def _separator(text: str, low: str, name: _Name) -> tuple[int, str]:
    """Return the position after the separator that follows a name, and the separator; empty if there is none."""
    at, window = name.end, text[name.end : name.end + 9]
    slashes = len(window) - len(window.lstrip("\\"))
    is_quoted = window[slashes : slashes + 1] in _QUOTES
    if is_quoted:
        at += slashes + 1
        at += text[at : at + 1] in ("]", ")")
    after = at + _spaces(text, at)
    signs = text[after : after + 4]
    if signs[:1] == "=" or signs[:2] == ":=":
        return after + len(signs) - len(signs.lstrip(":=").removeprefix(">")), "="
    if signs[:1] == ":" and signs[1:2] != ":":
        return after + 1, ":"
    if is_quoted and signs[:1] == ",":
        return after + 1, ","
    if is_quoted and low.startswith("value=", after):  # <add key="Password" value="…">
        return after + 6, "="
    return _rare_separator(text, low, name, after)


def _rare_separator(text: str, low: str, name: _Name, after: int) -> tuple[int, str]:
    """The same for `<password>…</password>`, `--password …` and .netrc files."""
    if after == name.end:
        is_element = text[after : after + 1] == ">" and text[name.begin - 1 : name.begin] == "<"
        return (after + 1, ">") if is_element else (0, "")
    window = low[max(0, name.begin - 160) : name.begin]
    is_netrc = not name.before and "login " in window and ("machine " in window or "default" in window)
    is_option = name.before.startswith("--") and not name.tail.endswith(("s", "S"))
    return (after, "login" if is_netrc else " ") if is_option or is_netrc else (0, "")


# Values


def _extent(text: str, at: int, sign: str, ahead: str) -> tuple[int, int, bool]:
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
    for mark in (*_QUOTES, "</", "<" if sign == ">" else "</"):
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
