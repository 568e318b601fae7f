"""The cheap look: may these bytes hold a private tag or a secret? No imports, so that the hook can afford it always.

It may be wrong in one direction only: what `privacy` would strip is always seen here. `privacy` asks the same
question of its text, so that it compiles and runs only the patterns that can match.
"""

MANY = 2000  # past so many places to look at, looking costs more than stripping

_WORD = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+="
_HEX = b"0123456789abcdef"
_NAME = b"abcdefghijklmnopqrstuvwxyz0123456789_-"
_PRINTABLE = (b"2", b"3", b"4", b"5", b"6", b"7")  # the first digit of a printable character's escape
#: What may stand between the signs and the letters of a tag, beside characters that nobody sees.
_BETWEEN = bytes(range(128, 256)) + b" /\\"
_SIGNS = (b"<", b"lt;", b"60;", b"3c;")  # what begins a tag: as it is, and the ends of entities
_PRIVATE = tuple(sign + b"private" for sign in _SIGNS)
_REACH = 64  # bytes before a name in which its sign is looked for
#: The wide forms of East Asian keyboards, as UTF-8: U+FF1C, U+FE64, and each letter of `private`, small and capital.
_WIDE_SIGNS = (b"\xef\xbc\x9c", b"\xef\xb9\xa4")
_WIDE = (
    *((sign, b"<") for sign in _WIDE_SIGNS),
    *((b"\xef\xbd" + bytes([letter + 32]), bytes([letter])) for letter in b"private"),
    *((b"\xef\xbc" + bytes([letter + 64]), bytes([letter])) for letter in b"private"),
)
#: The characters of such tags as JSON may escape them.
_IN_TAGS = (
    *(b"\\u200" + digit for digit in (b"b", b"c", b"d", b"e", b"f")),
    *(b"\\u202" + digit for digit in (b"a", b"b", b"c", b"d", b"e")),
    *(b"\\u206", b"\\ufe0", b"\\ufe6", b"\\ufeff", b"\\uff", b"\\u00ad", b"\\u00a0", b"\\u034f", b"\\u061c"),
    *(b"\\u180e", b"\\u3000"),
)
_ESCAPED = (*(b"\\u00" + digit for digit in _PRINTABLE), *_IN_TAGS)

#: Beginnings that consist of capitals and a little punctuation: looked for in a copy without all the rest, which in
#: ordinary text is a tenth of it. (What is left of the beginning, the beginning.)
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

#: A token is at least so long, all of it of these: everything shorter is left out before tokens are looked for, which
#: leaves a twentieth of ordinary text.
_TOKEN = 20
_IN_TOKEN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.%"
_TOKENS = bytes(120 if b in _IN_TOKEN else 32 for b in range(256))
_AROUND = 12  # what stands before and after decides whether it begins there

#: Beginnings that end in a joint: one cut of the bytes there serves them all, where each alone would be a search.
_JOINED = (
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
#: The same by the two bytes before the joint.
_JOINTS: list[tuple[bytes, dict[bytes, list[bytes]]]] = []
for _joint, _words in _JOINED:
    _ends: dict[bytes, list[bytes]] = {}
    for _word in _words.split():
        _ends.setdefault(_word[-3:-1], []).append(_word)
    _JOINTS.append((_joint, _ends))
#: What may follow these is no plain word.
_CERTAIN = frozenset(
    b"glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- GOCSPX- xapp- whsec_ HRKU- "
    b"tskey- sq0atp- sq0csp- FLWSECK- FLWSECK_TEST- access-sandbox- access-development- access-production- CFPAT- "
    b"dnkey- NRII- tk-us- fo1_ fm1a_ fm1r_ fm2_ figd_ tfp_ duffel_test_ duffel_live_ pscale_tkn_ "
    b"pscale_oauth_ pscale_pw_ dckr_pat_ dckr_oat_ CCIPAT_ CCIPRJ_ sb_secret_ sgp_ sntrys_ hvs. hvb. ya29. dp.pt. "
    b"dp.st. dp.ct. dp.sa. dp.scim. dp.audit.".split()
)
_SK_KINDS = (b"ant", b"or", b"proj", b"svcacct", b"admin", b"None")

#: Beginnings that are rare enough to be taken as they stand: in long words, and anywhere.
_RARE_WORDS = (b"fio-u-", b".atlasv1.", b"_mmk", b"sk.eyJ", b"eyJrIjoi", b"ZXlKaGJHY", b"LS0tLS1CRUdJTi")
_KEY_WORDS = (b"b3BlbnNzaC1rZXkt", b"IBAAKCA", b"IBADANBgkq", b"MHcCAQEEI", b"MC4CAQAwBQYDK2Vw")
#: Words that stand around a sign or a word that is rarer than they are long.
_AROUND_MARKS = ((b"hook", (b"hooks.slack.com", b"webhooks", b"webhook.office.com")), (b"~", (b"sha256~", b"Q~")))
#: Programs that take passwords as options or read them from a pipe; others are seen where `pass` stands.
_COMMANDS = (b"curl", b"mysql", b"redis-cli", b" login ", b"sudo -s")
#: Whatever names a secret contains one of these.
_STEMS = (b"pass", b"pwd", b"secret", b"token", b"credential", b"auth", b"key", b"_pat")

#: What may follow the stem within one word, and what a name ends with.
_TAILS = (b"in pass:", b"out pass:", b"w", b"phrase", b"s", b"key", b"value", b"hash", b"base", b"data", b"orization")
_PASS_OPTIONS = (b"in pass:", b"out pass:", b"wd --stdin", b"word-stdin")
_NAME_ENDS = frozenset(b"%c" % sign for sign in b" \t\\\"'`])=:>,?")


def suspicious(data: bytes) -> bool:
    """Whether a payload must be read and stripped before it may leave the process."""
    return bool(hints(data))


def tagged(data: bytes) -> bool:
    """Whether there may be a tag in it: a tenth of the whole look, for payloads so large that it is felt."""
    low, found = data.lower(), set[str]()
    _tags(low, found)
    _escapes(low, found)
    return bool(found)


def hints(data: bytes) -> set[str]:
    """The beginnings of tags and secrets that are worth a proper look."""
    found: set[str] = set()
    low = data.lower()
    _tags(low, found)
    _escapes(low, found)
    tokens = _long_ones(data)
    _beginnings(tokens, found)
    _joints(tokens, found)
    _phrases(data, low, tokens, found)
    _names(data, low, found)
    _urls(data, found)
    return found


def starts(data: bytes, at: int) -> bool:
    r"""Whether a word can begin here: not inside another, but right after an escape (\n, \u000a, %3D, a colour)."""
    before = data[max(0, at - 6) : at]
    return (
        not before[-1:].isalnum()
        or before[-2:-1] == b"\\"
        or before[-3:-2] == b"%"
        or before[:2] == b"\\u"
        or (before[-1:] == b"m" and before[-2:-1] in b"0123456789;[")
    )


def _places(data: bytes, needle: bytes) -> list[int]:
    """Where the needle stands, as far as MANY."""
    found: list[int] = []
    at = data.find(needle)
    while at >= 0 and len(found) <= MANY:
        found.append(at)
        at = data.find(needle, at + 1)
    return found


def _long_ones(data: bytes) -> bytes:
    """The pieces that are long enough to be tokens, each with what stands around it."""
    shape, needle, pieces = data.translate(_TOKENS), b"x" * _TOKEN, []
    at = shape.find(needle)
    while at >= 0:
        end = shape.find(b" ", at)
        if end < 0:
            end = len(data)
        pieces.append(data[max(0, at - _AROUND) : end + _AROUND])
        at = shape.find(needle, end)
    return b" ".join(pieces)


def _tags(low: bytes, found: set[str]) -> None:
    if b"\0" in low:  # UTF-16 or UTF-32, in which nothing else would be seen
        found.add("<")
    if low.isascii():
        places = _places(low, b"private")
        if len(places) > MANY or any(_opens(low[max(0, at - _REACH) : at]) for at in places):
            found.add("<")
    else:
        # Without blanks, slashes and all that is not ASCII, most ways to write a tag are one.
        bare = low.translate(None, _BETWEEN)
        if any(tag in bare for tag in _PRIVATE) or _is_wide(low):
            found.add("<")
    closing = _places(low, b"-context")
    if len(closing) > MANY:
        found.add("<")
    for at in closing:
        # Before "-context" stands the rest of the name.
        before = low[max(0, at - 40) : at].removesuffix(b"claude-mem").removesuffix(b"backstory")
        if before.translate(None, _BETWEEN)[-1:] in (b"<", b";") or any(sign in before for sign in _WIDE_SIGNS):
            found.add("<")
            return


def _opens(before: bytes) -> bool:
    """Whether a tag begins right before its name; so many blanks that its sign is out of reach count as one."""
    before = before.rstrip(b" /\\")
    return not before or before.endswith(_SIGNS)


def _is_wide(low: bytes) -> bool:
    """Whether it holds a tag as the keyboards of East Asia write it."""
    if not (b"\xef\xbc" in low or b"\xef\xbd" in low or b"\xef\xb9" in low):
        return False
    for wide, sign in _WIDE:
        low = low.replace(wide, sign)
    bare = low.translate(None, _BETWEEN)
    return any(tag in bare for tag in _PRIVATE)


def _escapes(low: bytes, found: set[str]) -> None:
    places = _places(low, b"\\u")
    many = len(places) > MANY  # the colours of a terminal, usually
    if any(e in low for e in _ESCAPED) if many else any(low[at : at + 6].startswith(_ESCAPED) for at in places):
        found.add("\\u")


def _beginnings(data: bytes, found: set[str]) -> None:
    capitals = data.translate(None, _NOT_CAPITAL)
    wanted = [needle for rest, needle in _CAPITAL if rest in capitals]
    for needle in (*wanted, *_SMALL):
        places = _places(data, needle)
        if len(places) > MANY or any(_begins(data, at, needle) for at in places):
            found.add(needle.decode())


def _begins(data: bytes, at: int, needle: bytes) -> bool:
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


def _joints(data: bytes, found: set[str]) -> None:
    for joint, ends in _JOINTS:
        pieces = data.split(joint, 20 * MANY)
        if len(pieces) > 20 * MANY:
            found.update(literal.decode() for group in ends.values() for literal in group)
            continue
        pieces.append(b"")
        for index in [index for index, piece in enumerate(pieces) if piece[-2:] in ends]:
            # A beginning may hold a joint itself: sk_live_.
            before = (pieces[index - 1][-16:] + joint if index else b"") + pieces[index][-16:]
            for literal in ends[before[-2:]]:
                if before.endswith(literal[:-1]) and _continues(before, literal, pieces[index + 1]):
                    found.add(literal.decode())


def _continues(before: bytes, literal: bytes, following: bytes) -> bool:
    if literal[:3] == b"xox":
        return True
    if not starts(before, len(before) - len(literal) + 1):
        return False
    if literal in _CERTAIN or (literal == b"sk-" and following in _SK_KINDS) or following.startswith(b"AgEIcHlwaS5"):
        return True
    return len(following) >= (6 if literal == b"A3-" else 16) and following[:16].translate(None, b"_-").isalnum()


def _phrases(data: bytes, low: bytes, tokens: bytes, found: set[str]) -> None:
    found.update([literal.decode() for literal in _RARE_WORDS if literal in tokens])
    found.update([word.decode() for word in (b"whsec_", b"fm2_") if word in data])  # may hold a slash early on
    if b"432:" in data:
        found.update([word for word in (":5432:", ":6432:") if word.encode() in data])
    for mark, words in _AROUND_MARKS:
        places = _places(low, mark)
        near = low if len(places) > MANY else b"\n".join([low[max(0, at - 6) : at + 16] for at in places])
        found.update([word.decode() for word in words if word.lower() in near])
    is_key = b"private" in low and (b"PRIVATE KEY" in data or b"Private-Lines:" in data)
    if is_key or [word for word in _KEY_WORDS if word in tokens]:
        found.add("PRIVATE KEY")
    for word, follows in (("bearer", _opaque), ("cookie", _cookie), ("sig", _signed)):
        places = _places(low, word.encode())
        if len(places) > MANY or [at for at in places if follows(low, at + len(word))]:
            found.update(("sig=", "signature=") if word == "sig" else (word,))
    if [command for command in _COMMANDS if command in low]:
        _commands(data, found)


def _commands(data: bytes, found: set[str]) -> None:
    text = data.decode("latin-1")
    if next(_module("command_secrets").found(text, text.lower()), None):
        found.add("command")


def _module(name: str):  # type: ignore[no-untyped-def]
    """A module beside this one, which may stand alone: the hook has nothing but this folder on its path."""
    return __import__(f"{__package__}.{name}", fromlist=[name]) if __package__ else __import__(name)


def _cookie(low: bytes, at: int) -> bool:
    window = low[at : at + 500].lstrip(b"\\\"'`")
    name, sign, value = window[1:].lstrip(b" \t\\\"'`").partition(b"=")
    if window[:1] not in (b":", b",", b"=", b" ") or not sign or len(name) > 60 or name.translate(None, _NAME + b"."):
        return False
    values = value.replace(b";", b" ").split(None, 1)
    return bool(values) and len(values[0]) >= 8 and values[0].translate(None, b"0123456789") != values[0]


def _signed(low: bytes, at: int) -> bool:
    """Whether `sig` ends here and `=` and a signature follow, or `nature=` and one."""
    value = low[at : at + 47].removeprefix(b"nature")
    return value[:1] == b"=" and len(value) > 40 and not value[1:41].strip(_WORD + b"%")


def _scheme(low: bytes, at: int) -> bool:
    window = low[at : at + 120]
    return any(scheme in window for scheme in (b"basic", b"bearer", b"token", b"bot", b"digest", b"apikey"))


def _opaque(low: bytes, at: int) -> bool:
    value = low[at : at + 24].lstrip()[:16]
    return len(value) == 16 and not value.strip(_WORD + b"~")


def _names(data: bytes, low: bytes, found: set[str]) -> None:
    """Whether a name such as `password` or `apiKey` is given a value. `named_secrets` judges those that may be one."""
    candidates: list[tuple[int, str]] = []
    for stem in _STEMS:
        at = low.find(stem)
        while at >= 0 and len(candidates) <= MANY:
            end = at + len(stem)
            # `author`, `keyboard`, `passed`: most places end here
            tail = not data[end : end + 1].islower() or low.startswith(_TAILS, end)
            if tail and _is_candidate(data, low, end, stem, found):
                candidates.append((at, stem.decode()))
            at = low.find(stem, end)
    if candidates and (len(candidates) > MANY or _is_secret_at(data, low, candidates)):
        found.add("name")
        found.update(word for word in ("secret", "accountkey", "accesskey") if word.encode() in low)


def _is_secret_at(data: bytes, low: bytes, places: list[tuple[int, str]]) -> bool:
    return bool(_module("named_secrets").is_secret_at(data.decode("latin-1"), low.decode("latin-1"), places))


def _is_candidate(data: bytes, low: bytes, at: int, stem: bytes, found: set[str]) -> bool:
    if stem == b"pass" and (low.startswith(_PASS_OPTIONS, at) or low[at - 7 : at].endswith((b"sshpass", b"chpass"))):
        _commands(data, found)
    elif stem == b"auth" and low.startswith(b"orization", at) and _scheme(low, at + 9):
        found.add("authorization")
    window = low[at : at + 48]
    rest = window.lstrip(_NAME)
    return rest[:1] in _NAME_ENDS and _assigned(data, low, at, stem, at + len(window) - len(rest))


def _assigned(data: bytes, low: bytes, at: int, stem: bytes, end: int) -> bool:
    """Whether the name that ends here is followed by what can be a secret: a word that is long enough, and for most
    names mixed."""
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
    """Whether a space may stand between name and value: --password …, and the lines of a .netrc."""
    return b"--" in low[max(0, at - 56) : at] or b"login " in low[max(0, at - 160) : at]


def _urls(data: bytes, found: set[str]) -> None:
    for slashes in (b"://", b":\\/\\/"):
        places = _places(data, slashes)
        if len(places) > MANY or any(_has_password(data, at + len(slashes)) for at in places):
            found.add(slashes.decode())


def _has_password(data: bytes, at: int) -> bool:
    userinfo, sign, _ = data[at : at + 420].partition(b"@")
    return bool(sign) and b":" in userinfo and len(userinfo.translate(None, b" \t\r\n\"'<>/?#`\\")) == len(userinfo)
