"""The cheap look: may these bytes hold a private tag or a secret? No imports, so that the hook can afford it always.

It may be wrong in one direction only: what `privacy` would strip is always seen here. `privacy` asks the same
question of its text, so that it compiles and runs only the patterns that can match.
"""

MANY = 2000  # past so many places to look at, looking costs more than stripping

_WORD = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+="
_HEX = b"0123456789abcdef"
_NAME = b"abcdefghijklmnopqrstuvwxyz0123456789_-"
_QUOTES = b"\\\"'`"
_PRINTABLE = (b"2", b"3", b"4", b"5", b"6", b"7")  # the first digit of a printable character's escape
#: What may stand between the signs and the letters of a tag, beside characters that nobody sees.
_BETWEEN = bytes(range(128, 256)) + b" /\\"
#: The beginnings of a tag without what is between: as it is, and as entities.
_PRIVATE = (b"<private", b"lt;private", b"60;private", b"3c;private")
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
_NO_VALUE = b" \t\r\n\"'`,;&<>(){}[]|#"

#: Beginnings that consist of capitals and a little punctuation: looked for in a copy without all the rest, which in
#: ordinary text is a tenth of it. (What is left of the beginning, the beginning.)
_CAPITAL = (
    (b"AKIA", b"AKIA"),
    (b"ASIA", b"ASIA"),
    (b"ATATT", b"ATATT"),
    (b":AA", b":AA"),
    *((b"MT" + third, b"MT" + third) for third in (b"A", b"E", b"I", b"M", b"Q", b"U")),
    (b"SG.", b"SG."),
    (b"SK", b"SK"),
    (b"AI", b"AIza"),
    (b"GESECRETKEY", b"AGE-SECRET-KEY-1"),
    (b".J", b".eyJ"),
)
_NOT_CAPITAL = bytes(b for b in range(256) if b not in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ:.")
_SMALL = (b"ya29.", b"hvs.", b"dapi")

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
        b"ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ npm_ hf_ sbp_ ntn_ gsk_ r8_ shpat_ shpca_ shpss_ secret_ vcp_ whsec_ "
        b"dop_v1_ doo_v1_ lin_api_ sk_live_ rk_live_ sk_test_ rk_test_",
    ),
    (b"-", b"glpat- gldt- glrt- GOCSPX- xapp- sk- key- pypi- xoxa- xoxb- xoxc- xoxd- xoxe- xoxp- xoxr- xoxs-"),
)
#: The same by the two bytes before the joint.
_JOINTS = tuple(
    (joint, {end: [word for word in words.split() if word[-3:-1] == end] for end in {w[-3:-1] for w in words.split()}})
    for joint, words in _JOINED
)
#: What may follow these is no plain word.
_CERTAIN = (b"glpat-", b"gldt-", b"glrt-", b"GOCSPX-", b"xapp-", b"whsec_")
_SK_KINDS = (b"ant", b"or", b"proj", b"svcacct", b"admin", b"None")

#: Words that end the name of a secret: `PASSWORD=`, `client_secret:`, `"apiKey": "`. Always in small letters.
WORDS = ("passw", "passphrase", "secret", "token", "credential")
KEYS = tuple(
    kind + joint + "key"
    for kind in ("api", "access", "private", "account", "signing", "encryption", "master", "auth")
    for joint in ("", "_", "-")
)
_KEY_TAILS = tuple(key[:-3].encode() for key in KEYS)


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
    if b"PRIVATE KEY" in data:
        found.add("-----BEGIN")
    if b"whsec_" in data:  # may hold a slash early on
        found.add("whsec_")
    _phrases(low, found)
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
    plain = low.isascii()
    if b"private" in low or not plain:
        # Without blanks, slashes and all that is not ASCII, most ways to write a tag are one.
        bare = low.translate(None, _BETWEEN)
        if any(tag in bare for tag in _PRIVATE) or (not plain and _is_wide(low)):
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


def _is_wide(low: bytes) -> bool:
    """Whether it holds a tag as the keyboards of East Asia write it."""
    if not (b"\xef\xbc" in low or b"\xef\xbd" in low or b"\xef\xb9" in low):
        return False
    for wide, sign in _WIDE:
        low = low.replace(wide, sign)
    bare = low.translate(None, _BETWEEN)
    return any(tag in bare for tag in _PRIVATE)


def _escapes(low: bytes, found: set[str]) -> None:
    if b"\\u" not in low:
        return
    places = _places(low, b"\\u00")
    if len(places) > MANY:  # the colours of a terminal, usually
        printable = any(b"\\u00" + digit in low for digit in _PRINTABLE)
    else:
        printable = any(low[at + 4 : at + 5] in _PRINTABLE for at in places)
    if printable or any(escape in low for escape in _IN_TAGS):
        found.add("\\u")


def _beginnings(data: bytes, found: set[str]) -> None:
    capitals = data.translate(None, _NOT_CAPITAL)
    wanted = [needle for rest, needle in _CAPITAL if rest in capitals]
    for needle in (*wanted, *_SMALL):
        places = _places(data, needle)
        if len(places) > MANY or any(_begins(data, at, needle) for at in places):
            found.add(needle.decode().removeprefix("."))


def _begins(data: bytes, at: int, needle: bytes) -> bool:
    following = data[at + len(needle) : at + len(needle) + 8]
    if len(following) < 8 or following.strip(_HEX if needle in (b"SK", b"dapi") else _WORD):
        return False
    return needle[:1] in b".:" or starts(data, at)


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
    if literal in _CERTAIN or literal[:3] == b"xox":
        return True
    if not starts(before, len(before) - len(literal) + 1):
        return False
    return (len(following) >= 16 and following[:16].isalnum()) or (literal == b"sk-" and following in _SK_KINDS)


def _phrases(low: bytes, found: set[str]) -> None:
    for phrase in ("hooks.slack.com", "webhooks"):
        if phrase.encode() in low:
            found.add(phrase)
    for word, follows in (("authorization", _scheme), ("bearer", _opaque)):
        places = _places(low, word.encode())
        if len(places) > MANY or any(follows(low, at + len(word)) for at in places):
            found.add(word)


def _scheme(low: bytes, at: int) -> bool:
    window = low[at : at + 120]
    return any(scheme in window for scheme in (b"basic", b"bearer", b"token", b"bot", b"digest", b"apikey"))


def _opaque(low: bytes, at: int) -> bool:
    value = low[at : at + 24].lstrip()[:16]
    return len(value) == 16 and not value.strip(_WORD + b"~")


def _names(data: bytes, low: bytes, found: set[str]) -> None:
    for word in WORDS:
        places = _places(low, word.encode())
        if len(places) > MANY or any(_assigned(data, low, at + len(word), word[0] in "ps") for at in places):
            found.add(word)
    pieces = low.split(b"key", 2 * MANY)
    if len(pieces) > 2 * MANY:
        found.update(KEYS)
    end = 0
    for piece in pieces[:-1]:
        end += len(piece) + 3
        if piece.endswith(_KEY_TAILS) and _assigned(data, low, end, False):
            found.update(key for key in KEYS if piece.endswith(key[:-3].encode()))


def _assigned(data: bytes, low: bytes, at: int, any_word: bool) -> bool:
    """Whether the name that ends near here is given a value that can be a secret: `any_word` in quotes, or one with a
    digit, or, for a NAME in capitals, what comes."""
    rest = low[at : at + 400].replace(b"\\t", b" ").lstrip(_NAME).lstrip(b" \t\r\n\\\"'`]")
    if rest[:1] not in (b":", b"="):
        return False
    rest = rest.lstrip(b":=> \t\r\n")
    value = rest.lstrip(_QUOTES)
    for prefix in (1, 2):  # b"…", rb"…"
        if not value[:prefix].strip(b"bru") and value[prefix : prefix + 1] in (b'"', b"'", b"`", b"\\"):
            value = value[prefix:].lstrip(_QUOTES)
            break
    if len(value) < 8 or len(value[:8].translate(None, _NO_VALUE)) < 8:
        return False
    if (any_word and value != rest) or data[at - 3 : at].isupper():
        return True
    run = value.split(None, 1)[0]
    rest = run.translate(None, b"0123456789")
    return len(run) > 200 or (rest != run and (any_word or bool(rest)))


def _urls(data: bytes, found: set[str]) -> None:
    for slashes in (b"://", b":\\/\\/"):
        places = _places(data, slashes)
        if len(places) > MANY or any(_has_password(data, at + len(slashes)) for at in places):
            found.add(slashes.decode())


def _has_password(data: bytes, at: int) -> bool:
    userinfo, sign, _ = data[at : at + 420].partition(b"@")
    return bool(sign) and b":" in userinfo and len(userinfo.translate(None, b" \t\r\n\"'<>/?#`\\")) == len(userinfo)
