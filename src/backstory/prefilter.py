"""Fast check whether bytes may contain a private tag or a secret. Imports nothing, because every hook runs it.

There may be false positives but no false negatives: whatever `privacy` would strip is detected here. `privacy` runs the
same check on its text, and then compiles and runs only the patterns that can match.
"""

MANY = 2000  # number of candidate positions from which on checking each of them costs more than stripping

_WORD = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+="
_HEX = b"0123456789abcdef"
_NAME = b"abcdefghijklmnopqrstuvwxyz0123456789_-"
_PRINTABLE = (b"2", b"3", b"4", b"5", b"6", b"7")  # the third digit in the \u escape of a printable character
#: Bytes that may separate the `<`, the `/` and the letters of a tag: non-ASCII ones, spaces and slashes.
_BETWEEN = bytes(range(128, 256)) + b" /\\"
_SIGNS = (b"<", b"lt;", b"60;", b"3c;")  # what opens a tag: `<`, or the end of an entity for it
_PRIVATE = tuple(sign + b"private" for sign in _SIGNS)
_REACH = 64  # bytes before a tag name in which its `<` is searched
#: Fullwidth forms in UTF-8: U+FF1C and U+FE64 for `<`, and the letters of `private` in lower and upper case.
_WIDE_SIGNS = (b"\xef\xbc\x9c", b"\xef\xb9\xa4")
_WIDE = (
    *((sign, b"<") for sign in _WIDE_SIGNS),
    *((b"\xef\xbd" + bytes([letter + 32]), bytes([letter])) for letter in b"private"),
    *((b"\xef\xbc" + bytes([letter + 64]), bytes([letter])) for letter in b"private"),
)
#: JSON escapes of the non-ASCII characters that a tag may contain.
_IN_TAGS = (
    *(b"\\u200" + digit for digit in (b"b", b"c", b"d", b"e", b"f")),
    *(b"\\u202" + digit for digit in (b"a", b"b", b"c", b"d", b"e")),
    *(b"\\u206", b"\\ufe0", b"\\ufe6", b"\\ufeff", b"\\uff", b"\\u00ad", b"\\u00a0", b"\\u034f", b"\\u061c"),
    *(b"\\u180e", b"\\u3000"),
)
_ESCAPED = (*(b"\\u00" + digit for digit in _PRINTABLE), *_IN_TAGS)

#: (capitals, prefix) of prefixes that contain several capitals. The capitals are searched first, in a copy of the text
#: that has only capitals, `:` and `.`. In ordinary text that copy is a tenth of the size.
_CAPITAL = (
    *((word, word) for word in (b"AKIA", b"ASIA", b"ABIA", b"ACCA", b"ABSK", b"LTAI", b"AKC", b"AQVN", b"ATBB")),
    *(
        (word, word)
        for word in (b"ATATT", b"ATCTT", b"EZAK", b"EZTK", b"EAAA", b"EAAC", b"EAAM", b":AA", b"SG.", b"SK")
    ),
    *((b"MT" + third, b"MT" + third) for third in (b"A", b"E", b"I", b"M", b"Q", b"U")),
    (b"AI", b"AIza"),
    (b"GR", b"GR1348941"),
    (b"GESECRETKEY", b"AGE-SECRET-KEY-1"),
    (b".J", b".eyJ"),
)
_NOT_CAPITAL = bytes(b for b in range(256) if b not in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ:.")
_SMALL = (b"dapi", b"cmVm", b"oy2", b"s.", b"pat", b"-us")

#: Minimum length of a token in bytes. Shorter runs of token characters are dropped before tokens are searched, which
#: leaves a twentieth of ordinary text.
_TOKEN = 20
_IN_TOKEN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.%"
_TOKENS = bytes(120 if b in _IN_TOKEN else 32 for b in range(256))
_AROUND = 12  # bytes kept before and after a run, to see whether a token can start there

#: Prefixes that end in `_`, `-` or `.`. Splitting the text once at that character is faster than one search per prefix.
_SEPARATED = (
    (
        b"_",
        b"ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ npm_ hf_ api_org_ sbp_ sb_secret_ ntn_ gsk_ r8_ shpat_ shpca_ shpss_ "
        b"shppa_ secret_ vcp_ nfp_ rnd_ napi_ whsec_ dop_v1_ doo_v1_ dor_v1_ lin_api_ sk_live_ rk_live_ sk_test_ "
        b"rk_test_ sk_prod_ rk_prod_ fo1_ fm1a_ fm1r_ fm2_ pscale_tkn_ pscale_oauth_ pscale_pw_ ops_ rubygems_ "
        b"CLOJARS_ dckr_pat_ dckr_oat_ CCIPAT_ CCIPRJ_ bkua_ squ_ sqp_ sqa_ sgp_ rdme_ pnu_ pnb_ sm_aat_ sm_pat_ "
        b"sm_sat_ lsv2_pt_ lsv2_sk_ duffel_test_ duffel_live_ shippo_live_ shippo_test_ figd_ tfp_ glsa_ glc_ sntrys_ "
        b"sntryu_ phx_",
    ),
    (
        b"-",
        b"glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- GOCSPX- xapp- sk- key- pypi- "
        b"xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- v1.0- HRKU- pul- tskey- A3- API- tk-us- ico- PMAK- "
        b"s-s4t2ud- s-s4t2af- pplx- xai- sq0atp- sq0csp- FLWSECK- FLWSECK_TEST- access-sandbox- access-development- "
        b"access-production- xkeysib- xsmtpsib- CFPAT- p8e- dnkey- NRAK- NRJS- NRII-",
    ),
    (b".", b"ya29. hvs. hvb. dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit. dt0c01. pat. sat. sl."),
)
#: The same prefixes, grouped by the two bytes before the separator.
_BY_SEPARATOR: list[tuple[bytes, dict[bytes, list[bytes]]]] = []
for _separator, _words in _SEPARATED:
    _ends: dict[bytes, list[bytes]] = {}
    for _word in _words.split():
        _ends.setdefault(_word[-3:-1], []).append(_word)
    _BY_SEPARATOR.append((_separator, _ends))
#: Prefixes that need no check of what follows, because they do not occur in ordinary words.
_CERTAIN = frozenset(
    b"glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- GOCSPX- xapp- whsec_ HRKU- "
    b"tskey- sq0atp- sq0csp- FLWSECK- FLWSECK_TEST- access-sandbox- access-development- access-production- CFPAT- "
    b"dnkey- NRII- tk-us- fo1_ fm1a_ fm1r_ fm2_ figd_ tfp_ duffel_test_ duffel_live_ pscale_tkn_ "
    b"pscale_oauth_ pscale_pw_ dckr_pat_ dckr_oat_ CCIPAT_ CCIPRJ_ sb_secret_ sgp_ sntrys_ hvs. hvb. ya29. dp.pt. "
    b"dp.st. dp.ct. dp.sa. dp.scim. dp.audit.".split()
)
_SK_KINDS = (b"ant", b"or", b"proj", b"svcacct", b"admin", b"None")

#: Literals that are rare enough to need no further check.
_RARE_WORDS = (b"fio-u-", b".atlasv1.", b"_mmk", b"sk.eyJ", b"eyJrIjoi", b"ZXlKaGJHY", b"LS0tLS1CRUdJTi")
_KEY_WORDS = (b"b3BlbnNzaC1rZXkt", b"IBAAKCA", b"IBADANBgkq", b"MHcCAQEEI", b"MC4CAQAwBQYDK2Vw")
#: (a short literal, longer literals around it). The longer ones are searched only near the short one.
_AROUND_LITERALS = ((b"hook", (b"hooks.slack.com", b"webhooks", b"webhook.office.com")), (b"~", (b"sha256~", b"Q~")))
#: Commands that take a password as an option or from a pipe. `_is_candidate` detects those that contain `pass`.
_COMMANDS = (b"curl", b"mysql", b"redis-cli", b" login ", b"sudo -s")
#: Every name of a secret contains one of these.
_STEMS = (b"pass", b"pwd", b"secret", b"token", b"credential", b"auth", b"key", b"_pat")

#: What may follow a stem within a word.
_TAILS = (b"in pass:", b"out pass:", b"w", b"phrase", b"s", b"key", b"value", b"hash", b"base", b"data", b"orization")
_PASS_OPTIONS = (b"in pass:", b"out pass:", b"wd --stdin", b"word-stdin")
#: What may follow a name.
_NAME_ENDS = frozenset(b"%c" % sign for sign in b" \t\\\"'`])=:>,?")


def suspicious(data: bytes) -> bool:
    """Whether a payload must be parsed and stripped before it may leave the process."""
    return bool(hints(data))


def tagged(data: bytes) -> bool:
    """Whether data may contain a private tag. Takes a tenth of the time of `hints`, for large payloads."""
    low, matches = data.lower(), set[str]()
    _tags(low, matches)
    _escapes(low, matches)
    return bool(matches)


def hints(data: bytes) -> set[str]:
    """Return the prefixes of tags and secrets that occur in data and that `privacy` must check."""
    matches: set[str] = set()
    low = data.lower()
    _tags(low, matches)
    _escapes(low, matches)
    tokens = _token_candidates(data)
    _prefixes(tokens, matches)
    _separated(tokens, matches)
    _literals(data, low, tokens, matches)
    _names(data, low, matches)
    _urls(data, matches)
    return matches


def starts(data: bytes, at: int) -> bool:
    r"""Whether a word can start at a position: not inside another, but after an escape (\n, \u000a, %3D, a colour)."""
    before = data[max(0, at - 6) : at]
    return (
        not before[-1:].isalnum()
        or before[-2:-1] == b"\\"
        or before[-3:-2] == b"%"
        or before[:2] == b"\\u"
        or (before[-1:] == b"m" and before[-2:-1] in b"0123456789;[")
    )


def _positions(data: bytes, needle: bytes) -> list[int]:
    """Return the positions of a literal, at most MANY + 1."""
    positions: list[int] = []
    at = data.find(needle)
    while at >= 0 and len(positions) <= MANY:
        positions.append(at)
        at = data.find(needle, at + 1)
    return positions


def _token_candidates(data: bytes) -> bytes:
    """Return the runs that are long enough to be tokens, each with a few bytes around it."""
    shape, needle, pieces = data.translate(_TOKENS), b"x" * _TOKEN, []
    at = shape.find(needle)
    while at >= 0:
        end = shape.find(b" ", at)
        if end < 0:
            end = len(data)
        pieces.append(data[max(0, at - _AROUND) : end + _AROUND])
        at = shape.find(needle, end)
    return b" ".join(pieces)


def _tags(low: bytes, matches: set[str]) -> None:
    if b"\0" in low:  # UTF-16 or UTF-32, in which no literal would match
        matches.add("<")
    if low.isascii():
        positions = _positions(low, b"private")
        if len(positions) > MANY or any(_is_tag_open(low[max(0, at - _REACH) : at]) for at in positions):
            matches.add("<")
    else:
        # Removing spaces, slashes and non-ASCII bytes reduces most spellings of a tag to one.
        bare = low.translate(None, _BETWEEN)
        if any(tag in bare for tag in _PRIVATE) or _has_fullwidth_tag(low):
            matches.add("<")
    closing = _positions(low, b"-context")
    if len(closing) > MANY:
        matches.add("<")
    for at in closing:
        # The rest of the tag name precedes `-context`.
        before = low[max(0, at - 40) : at].removesuffix(b"claude-mem").removesuffix(b"backstory")
        if before.translate(None, _BETWEEN)[-1:] in (b"<", b";") or any(sign in before for sign in _WIDE_SIGNS):
            matches.add("<")
            return


def _is_tag_open(before: bytes) -> bool:
    """Whether bytes end with the start of a tag. True also if they are all spaces: the `<` may precede them."""
    before = before.rstrip(b" /\\")
    return not before or before.endswith(_SIGNS)


def _has_fullwidth_tag(low: bytes) -> bool:
    """Whether bytes contain a tag in fullwidth characters."""
    if not (b"\xef\xbc" in low or b"\xef\xbd" in low or b"\xef\xb9" in low):
        return False
    for wide, sign in _WIDE:
        low = low.replace(wide, sign)
    bare = low.translate(None, _BETWEEN)
    return any(tag in bare for tag in _PRIVATE)


def _escapes(low: bytes, matches: set[str]) -> None:
    positions = _positions(low, b"\\u")
    many = len(positions) > MANY  # usually terminal colours
    if any(e in low for e in _ESCAPED) if many else any(low[at : at + 6].startswith(_ESCAPED) for at in positions):
        matches.add("\\u")


def _prefixes(data: bytes, matches: set[str]) -> None:
    capitals = data.translate(None, _NOT_CAPITAL)
    wanted = [needle for rest, needle in _CAPITAL if rest in capitals]
    for needle in (*wanted, *_SMALL):
        positions = _positions(data, needle)
        if len(positions) > MANY or any(_is_prefix_at(data, at, needle) for at in positions):
            matches.add(needle.decode())


def _is_prefix_at(data: bytes, at: int, needle: bytes) -> bool:
    following = data[at + len(needle) : at + len(needle) + 8]
    if needle == b"-us":
        return following[:1].isdigit() and not data[at - 8 : at].strip(_HEX)
    if len(following) < 8 or following.strip(_HEX if needle in (b"SK", b"dapi") else _WORD):
        return False
    if needle == b"s." and not _is_mixed(data[at + 2 : at + 26], data[at + 26 : at + 27]):  # Vault's old tokens
        return False
    if needle == b"pat" and data[at + 17 : at + 18] != b".":  # Airtable's
        return False
    return needle[:1] in b".:" or starts(data, at)


def _is_mixed(token: bytes, behind: bytes) -> bool:
    return token.isalnum() and not token.isalpha() and not token.islower() and behind not in (b".", b"_", b"-")


def _separated(data: bytes, matches: set[str]) -> None:
    for separator, ends in _BY_SEPARATOR:
        pieces = data.split(separator, 20 * MANY)
        if len(pieces) > 20 * MANY:
            matches.update(literal.decode() for group in ends.values() for literal in group)
            continue
        pieces.append(b"")
        for index in [index for index, piece in enumerate(pieces) if piece[-2:] in ends]:
            # A prefix may contain the separator itself: sk_live_.
            before = (pieces[index - 1][-16:] + separator if index else b"") + pieces[index][-16:]
            for literal in ends[before[-2:]]:
                if before.endswith(literal[:-1]) and _continues(before, literal, pieces[index + 1]):
                    matches.add(literal.decode())


def _continues(before: bytes, literal: bytes, following: bytes) -> bool:
    if literal[:3] == b"xox":
        return True
    if not starts(before, len(before) - len(literal) + 1):
        return False
    if literal in _CERTAIN or (literal == b"sk-" and following in _SK_KINDS) or following.startswith(b"AgEIcHlwaS5"):
        return True
    return len(following) >= (6 if literal == b"A3-" else 16) and following[:16].translate(None, b"_-").isalnum()


def _literals(data: bytes, low: bytes, tokens: bytes, matches: set[str]) -> None:
    matches.update([literal.decode() for literal in _RARE_WORDS if literal in tokens])
    # These may be followed by a slash, which ends a token candidate.
    matches.update([word.decode() for word in (b"whsec_", b"fm2_") if word in data])
    if b"432:" in data:
        matches.update([word for word in (":5432:", ":6432:") if word.encode() in data])
    for mark, words in _AROUND_LITERALS:
        positions = _positions(low, mark)
        near = low if len(positions) > MANY else b"\n".join([low[max(0, at - 6) : at + 16] for at in positions])
        matches.update([word.decode() for word in words if word.lower() in near])
    is_key = b"private" in low and (b"PRIVATE KEY" in data or b"Private-Lines:" in data)
    if is_key or [word for word in _KEY_WORDS if word in tokens]:
        matches.add("PRIVATE KEY")
    for word, follows in (("bearer", _is_opaque), ("cookie", _is_cookie), ("sig", _is_signature)):
        positions = _positions(low, word.encode())
        if len(positions) > MANY or [at for at in positions if follows(low, at + len(word))]:
            matches.update(("sig=", "signature=") if word == "sig" else (word,))
    if [command for command in _COMMANDS if command in low]:
        _commands(data, matches)


def _commands(data: bytes, matches: set[str]) -> None:
    text = data.decode("latin-1")
    if next(_module("command_secrets").find_spans(text, text.lower()), None):
        matches.add("command")


def _module(name: str):  # type: ignore[no-untyped-def]
    """Import a module of this directory, with or without the package: the hook has only this directory on its path."""
    return __import__(f"{__package__}.{name}", fromlist=[name]) if __package__ else __import__(name)


def _is_cookie(low: bytes, at: int) -> bool:
    window = low[at : at + 500].lstrip(b"\\\"'`")
    name, sign, value = window[1:].lstrip(b" \t\\\"'`").partition(b"=")
    if window[:1] not in (b":", b",", b"=", b" ") or not sign or len(name) > 60 or name.translate(None, _NAME + b"."):
        return False
    values = value.replace(b";", b" ").split(None, 1)
    return bool(values) and len(values[0]) >= 8 and values[0].translate(None, b"0123456789") != values[0]


def _is_signature(low: bytes, at: int) -> bool:
    """Whether `=` or `nature=`, and then a signature, follows the `sig` that ends here."""
    value = low[at : at + 47].removeprefix(b"nature")
    return value[:1] == b"=" and len(value) > 40 and not value[1:41].strip(_WORD + b"%")


def _has_auth_scheme(low: bytes, at: int) -> bool:
    window = low[at : at + 120]
    return any(scheme in window for scheme in (b"basic", b"bearer", b"token", b"bot", b"digest", b"apikey"))


def _is_opaque(low: bytes, at: int) -> bool:
    value = low[at : at + 24].lstrip()[:16]
    return len(value) == 16 and not value.strip(_WORD + b"~")


def _names(data: bytes, low: bytes, matches: set[str]) -> None:
    """Find names such as `password` or `apiKey` that have a value. `named_secrets` decides whether it is a secret."""
    candidates: list[tuple[int, str]] = []
    for stem in _STEMS:
        at = low.find(stem)
        while at >= 0 and len(candidates) <= MANY:
            end = at + len(stem)
            # rejects most positions: `author`, `keyboard`, `passed`
            tail = not data[end : end + 1].islower() or low.startswith(_TAILS, end)
            if tail and _is_candidate(data, low, end, stem, matches):
                candidates.append((at, stem.decode()))
            at = low.find(stem, end)
    if candidates and (len(candidates) > MANY or _is_secret_at(data, low, candidates)):
        matches.add("name")
        matches.update(word for word in ("secret", "accountkey", "accesskey") if word.encode() in low)


def _is_secret_at(data: bytes, low: bytes, positions: list[tuple[int, str]]) -> bool:
    return bool(_module("named_secrets").is_secret_at(data.decode("latin-1"), low.decode("latin-1"), positions))


def _is_candidate(data: bytes, low: bytes, at: int, stem: bytes, matches: set[str]) -> bool:
    if stem == b"pass" and (low.startswith(_PASS_OPTIONS, at) or low[at - 7 : at].endswith((b"sshpass", b"chpass"))):
        _commands(data, matches)
    elif stem == b"auth" and low.startswith(b"orization", at) and _has_auth_scheme(low, at + 9):
        matches.add("authorization")
    window = low[at : at + 48]
    rest = window.lstrip(_NAME)
    return rest[:1] in _NAME_ENDS and _assigned(data, low, at, stem, at + len(window) - len(rest))


def _assigned(data: bytes, low: bytes, at: int, stem: bytes, end: int) -> bool:
    """Whether the name that ends at `end` has a value that may be a secret: a word that is long enough, and for most
    stems not all lower case."""
    if low[end : end + 1] == b" " and low[end + 1 : end + 2] not in (b" ", b":", b"=") and not _may_be_option(low, at):
        return False
    window = low[end : end + 120].replace(b"\\t", b" ")
    value = window.lstrip(b"\\\"'`]) \t")
    sign = value[:1]
    if sign not in (b":", b"=", b",", b">"):
        if window[:1] not in (b" ", b'"', b"'", b"\\") or stem == b"_pat":
            return False
        if not value.startswith(b"value=") and not _may_be_option(low, at):  # <add key="password" value="…">
            return False
        value = value.removeprefix(b"value=")
    words = value.lstrip(b":=,> \t\\\"'`").split(None, 1)
    if not words or len(words[0]) < 4 or value[:2] == b"::":
        return False
    if stem in (b"pass", b"pwd", b"secret"):
        return True
    mixed = data[end : end + 120].replace(b"\\t", b" ")[len(window) - len(value) :]
    word = mixed.lstrip(b":=,> \t\\\"'`").split(None, 1)[0]
    return len(word) > 7 and (data[at - 1 : at].isupper() or not word.isalpha() or not word.islower())


def _may_be_option(low: bytes, at: int) -> bool:
    """Whether a space may separate name and value, as in `--password …` and in a .netrc file."""
    return b"--" in low[max(0, at - 56) : at] or b"login " in low[max(0, at - 160) : at]


def _urls(data: bytes, matches: set[str]) -> None:
    for slashes in (b"://", b":\\/\\/"):
        positions = _positions(data, slashes)
        if len(positions) > MANY or any(_has_password(data, at + len(slashes)) for at in positions):
            matches.add(slashes.decode())


def _has_password(data: bytes, at: int) -> bool:
    userinfo, sign, _ = data[at : at + 420].partition(b"@")
    return bool(sign) and b":" in userinfo and len(userinfo.translate(None, b" \t\r\n\"'<>/?#`\\")) == len(userinfo)
