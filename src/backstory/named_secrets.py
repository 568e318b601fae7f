"""Finds secrets by the name before them: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`, `<secret>…</secret>`.

Uses string methods only, because the hook runs it on every payload that assigns a value to such a name. Each step
examines a window of bounded size, so the time is linear in the length of the text.
"""

try:
    from .secret_assignments import NAME_WINDOW, Name, extent, paired, separator, skip, told, typed
    from .secret_values import ANY, LONGEST_LOOK, MIXED, NAME, OPAQUE, is_certain, is_secret, words
except ImportError:  # the hook has only this directory on its path
    from secret_assignments import NAME_WINDOW, Name, extent, paired, separator, skip, told, typed  # type: ignore[no-redef,import-not-found]
    from secret_values import ANY, LONGEST_LOOK, MIXED, NAME, OPAQUE, is_certain, is_secret, words  # type: ignore[no-redef,import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    #: Cache: (value, level, quoted, certain) -> whether it is a secret.
    _Cache = dict[tuple[str, int, bool, bool], bool]

#: Every name of a secret contains one of these.
STEMS = ("pass", "pwd", "secret", "token", "credential", "auth", "key", "psk", "_pat", "_pw")


_NAME_ENDS = frozenset(" \t\r\n\\\"'`])=:>,?([{!|*<\x1b")

_ABOUT_AFTER_WORDS = (
    "count type name len length size limit max min ttl url uri path file files dir id ids field label hint policy "
    "class prefix suffix regex re pattern format header usage budget status error errors message required version "
    "kind expires expired expiry expiration at in index position start end rule rules algorithm method mode manager "
    "provider service endpoint param params column input form help text title var arn ref scope env list set map is "
    "reset validators hashers placeholder strength rotation generator store storage vault fingerprint thumbprint "
    "prompt stdin stream ring pair board word words code codes press up down frame space alias bindings binding "
    "schema selector validator callback function func handler option options order per usd cost price rate window "
    "range ratio charset alphabet chars charac characters"
)
#: Words after the stem that show that the value is not the secret itself: `token_count`, `password_field`.
_ABOUT_AFTER = frozenset(_ABOUT_AFTER_WORDS.split())
_ABOUT_BEFORE_WORDS = (
    "forgot forgotten reset change show hide toggle has is no not invalid wrong missing requires require required "
    "without next page continuation pad eos bos unk sep mask stop special max min num total input output pub primary "
    "foreign sort partition row cache map object item group join unique natural composite hash hot short idempotency "
    "dedup index idx lookup state config settings json yaml dict column field bucket translation i18n message "
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
                end = max(end, span[1])  # the value may precede the name
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
    return _value(text, low, Name(text, at, stem, window[: len(window) - len(rest)]), unsure, cache)


_WORKING_DIRECTORY = ("pwd", "--pwd", "-pwd")


def _value(text: str, low: str, name: Name, unsure: bool, cache: "_Cache") -> "tuple[int, int] | None":
    """Return the span of the secret that belongs to a name."""
    start, sign = separator(text, low, name)
    # NAME=value without spaces: a configuration file, not code
    tight = sign == "=" and text[name.end] == "=" and not text[start : start + 1].isspace()
    level = _level(name, low, tight)
    if not level:
        return None
    if sign == ":" and text[start : start + 1] == "?" and text[name.begin - 2 : name.begin] == "${":
        return None  # ${NAME:?message}
    if sign == ":" and name.whole == "pass" and not name.is_upper:
        level = ANY  # `pass: …` of a login, if the value can be nothing else
    if sign:
        start, end, quoted = extent(text, skip(text, start), sign, text[max(0, name.begin - 1) : name.begin])
        is_line = tight and not quoted and (name.is_upper or _is_line(text, name.begin, end))
        certain = is_line or sign in ("login", "set")
        here = _level_of_value(text, name, sign, level, (start, end), quoted)
        if (tight or not _is_other(text[start:end], name, unsure)) and (
            _is_value(text, (start, end), here, quoted, certain, unsure, cache)
            or (quoted == (sign in ("(", ",")) and _is_certain(text, start, end, level, unsure))
        ):
            return start, end
    return None if sign == "=" else _distant(text, low, name, level, unsure, cache)


def _is_other(value: str, name: Name, unsure: bool) -> bool:
    """Whether this is a pattern in a variable that ends in `_pat`, or a path in one that is called `pwd`."""
    is_path = name.whole in _WORKING_DIRECTORY and "\\" in value and not unsure
    return is_path or (name.stem == "_pat" and not value.isalnum())


def _distant(text: str, low: str, name: Name, level: int, unsure: bool, cache: "_Cache") -> "tuple[int, int] | None":
    """Return the span of a secret that a type, a word or a field separates from its name."""
    if at := typed(text, name):
        start, end, quoted = extent(text, at, "=", "")
        return (start, end) if _is_value(text, (start, end), level, quoted, False, unsure, cache) else None
    at, sign = paired(text, low, name)
    if at:
        start, end, quoted = extent(text, at, sign, "")
        if not text[start:end].isalpha() and (
            _is_value(text, (start, end), level, quoted, False, unsure, cache)
            or _is_certain(text, start, end, level, unsure)
        ):
            return start, end
    if level == OPAQUE or name.whole in _WORKING_DIRECTORY:
        return None
    return told(text, name, level, unsure)


def _is_value(
    text: str, span: tuple[int, int], level: int, quoted: bool, certain: bool, unsure: bool, cache: "_Cache"
) -> bool:
    start, end = span
    if not level or end <= start:
        return False
    value = text[start : min(end, start + LONGEST_LOOK)]
    case = (value, level, quoted, certain)
    if case not in cache:
        cache[case] = (unsure and ("\\u" in value or not value.isascii())) or is_secret(*case)
    return cache[case]


def _is_certain(text: str, start: int, end: int, level: int, unsure: bool) -> bool:
    value = text[start : min(end, start + LONGEST_LOOK)]
    return level != OPAQUE and ((unsure and "\\u" in value) or is_certain(value, level))


def _level_of_value(text: str, name: Name, sign: str, level: int, span: tuple[int, int], quoted: bool) -> int:
    """Return the level for the name together with separator and quotes."""
    if sign in (",", "("):
        return OPAQUE if quoted and sign == "," else 0
    if sign == ">":
        return level if text.startswith(("</", "<\\/"), span[1]) else 0
    if name.stem == "pass" and (level == OPAQUE or name.whole == "pass"):
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


def _level(name: Name, low: str, tight: bool) -> int:
    """Return ANY, MIXED or OPAQUE for a name of a secret; 0 for other names."""
    ahead, tail = words(name.before), name.tail
    if not ahead and name.stem == "key" and low[name.begin - 1 : name.begin] == " ":
        ahead = low[max(0, name.begin - NAME_WINDOW) : name.begin].split()[-1:]  # the API key
    is_password = False
    if name.stem == "pass":
        for rest in ("phrase", "word", "wort", "code", "wd", "w"):
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


def _level_of_stem(name: Name, ahead: list[str], tight: bool) -> int:
    stem = name.stem
    if stem in ("token", "credential"):
        return MIXED
    if stem in ("psk", "_pw"):
        return ANY if not name.tail and (name.begins_word or stem == "_pw") else 0
    if stem == "_pat":
        return MIXED if name.is_upper and not name.tail else 0
    if stem == "key":
        return _level_of_key(name, ahead, tight)
    if not name.begins_word and name.before[-1:].lower() + stem != "oauth":
        return 0
    return ANY if stem == "pwd" or (stem == "pass" and ahead) else OPAQUE


def _level_of_key(name: Name, ahead: list[str], tight: bool) -> int:
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
