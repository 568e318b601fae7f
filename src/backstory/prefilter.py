"""Fast check whether bytes may contain a private tag or a secret. Imports nothing, because every hook runs it.

There may be false positives but no false negatives: whatever `privacy` would strip is detected here. `privacy` runs the
same check on its text, and then compiles and runs only the patterns that can match.
"""

MANY = 2000  # number of candidate positions from which on checking each of them costs more than stripping

_WORD = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+="
_HEX = b"0123456789abcdef"
_NAME = b"abcdefghijklmnopqrstuvwxyz0123456789_-"
#: Bytes that may separate the `<`, the `/` and the letters of a tag: non-ASCII ones, spaces and slashes.
_BETWEEN = bytes(range(128, 256)) + b" /\\"
_SIGNS = (b"<", b"lt;", b"60;", b"3c;")  # what opens a tag: `<`, or the end of an entity for it
_PRIVATE = tuple(sign + b"private" for sign in _SIGNS)
_REACH = 64  # bytes before a tag name in which its `<` is searched
_WIDE_SIGNS = (b"\xef\xbc\x9c", b"\xef\xb9\xa4")  # fullwidth forms of `<` in UTF-8: U+FF1C and U+FE64
#: JSON escapes of printable characters, and of the non-ASCII characters that a tag may contain.
_ESCAPED = tuple(
    b"\\u002 \\u003 \\u004 \\u005 \\u006 \\u007 \\u00ad \\u00a0 \\u034f \\u061c \\u180e \\u200b \\u200c \\u200d "
    b"\\u200e \\u200f \\u202a \\u202b \\u202c \\u202d \\u202e \\u206 \\u3000 \\ufe0 \\ufe6 \\ufeff \\uff".split()
)

#: (capitals, prefix) of prefixes that contain several capitals. The capitals are searched first, in a copy of the text
#: that has only capitals, `:` and `.`. In ordinary text that copy is a tenth of the size.
_NOT_CAPITAL = bytes(b for b in range(256) if b not in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ:.")
_CAPITALS = (
    b"AKIA AKID ASIA ABIA ACCA ABSK LTAI AKC AQVN ATBB ATATT ATCTT EZAK EZTK EAAA EAAC EAAM :AA SG. SK MT ND NT OD OT "
    b"AIza GR1348941 AGE-SECRET-KEY-1 .eyJ"
)
_CAPITAL = tuple((word.translate(None, _NOT_CAPITAL), word) for word in _CAPITALS.split())
_SMALL = tuple(b"dapi cmVm oy2 s. pat -us cio Mj Mz Nj Nz".split())
_DISCORD = frozenset(b"MT Mj Mz ND NT Nj Nz OD OT".split())
#: Minimum length of a token in bytes. Shorter runs of token characters are dropped before tokens are searched, which
#: leaves a twentieth of ordinary text.
_TOKEN = 20
_IN_TOKEN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.%"
_TOKENS = bytes(120 if b in _IN_TOKEN else 32 for b in range(256))
_AROUND = 12  # bytes kept before and after a run, to see whether a token can start there

#: Prefixes that end in `_`, `-` or `.`. Splitting the text once at that character is faster than one search per prefix.
#: Those with a `!` need no check of what follows, because they do not occur in ordinary words.
_SEPARATED = (
    b"ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ npm_ hf_ api_org_ sbp_ sb_secret_! ntn_ gsk_ r8_ shpat_ shpca_ shpss_ "
    b"shppa_ secret_ vcp_ nfp_ rnd_ napi_ whsec_! dop_v1_ doo_v1_ dor_v1_ lin_api_ sk_live_ rk_live_ sk_test_ "
    b"rk_test_ sk_prod_ rk_prod_ fo1_! fm1a_! fm1r_! fm2_! pscale_tkn_! pscale_oauth_! pscale_pw_! ops_ rubygems_ "
    b"CLOJARS_ dckr_pat_! dckr_oat_! CCIPAT_! CCIPRJ_! bkua_ squ_ sqp_ sqa_ sgp_! rdme_ pnu_ pnb_ sm_aat_ sm_pat_ "
    b"sm_sat_ lsv2_pt_ lsv2_sk_ duffel_test_! duffel_live_! shippo_live_ shippo_test_ figd_! tfp_! glsa_ glc_ "
    b"sntrys_! sntryu_ phx_ tr_prod_ tr_dev_ tr_stg_ tr_pat_ tgp_v1_! pcsk_! e2b_ key_ sk_ jina_! apify_api_ "
    b"lin_oauth_ rzp_live_! rzp_test_! re_ waka_ aio_ glpat-! gldt-! glrt-! glcbt-! glptt-! glft-! glimt-! "
    b"glagent-! gloas-! glsoat-! glffct-! GOCSPX-! xapp-! sk- key- pypi- xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- "
    b"xoxp- xoxr- xoxs- v1.0- HRKU-! pul- tskey-! A3- API- tk-us-! ico- PMAK- s-s4t2ud- s-s4t2af- pplx- xai- "
    b"sq0atp-! sq0csp-! FLWSECK-! FLWSECK_TEST-! access-sandbox-! access-development-! access-production-! "
    b"xkeysib- xsmtpsib- CFPAT-! p8e- dnkey-! NRAK- NRJS- NRII-! nvapi-! fc- tvly-! csk- pat-na1- pat-na2- "
    b"pat-eu1- pat-ap1- xaat- xapt- sdk- mob- api- ya29.! hvs.! hvb.! dp.pt.! dp.st.! dp.ct.! dp.sa.! dp.scim.! "
    b"dp.audit.! dt0c01. pat. sat. sl."
)
#: The same prefixes, by their separator and the two bytes before it.
_BY_SEPARATOR: dict[bytes, dict[bytes, list[bytes]]] = {b"_": {}, b"-": {}, b".": {}}
for _word in _SEPARATED.replace(b"!", b"").split():
    _BY_SEPARATOR[_word[-1:]].setdefault(_word[-3:-1], []).append(_word)
_CERTAIN = frozenset(word[:-1] for word in _SEPARATED.split() if word.endswith(b"!"))
#: Prefixes that a UUID follows.
_BEFORE_UUID = frozenset(b"pat-na1- pat-na2- pat-eu1- pat-ap1- xaat- xapt- sdk- mob- api-".split())
_SK_KINDS = (b"ant", b"or", b"proj", b"svcacct", b"admin", b"None", b"lf")
#: Literals that are rare enough to need no further check.
_RARE = (
    b"fio-u- .atlasv1. _mmk sk.eyJ eyJrIjoi ZXlKaGJHY LS0tLS1CRUdJTi pylf_v 1//0 1\\/\\/0 vercel_blob_rw_ mdb_sa_sk_"
)
_RARE_WORDS = (*_RARE.split(), b"A" * 20)
_KEY_WORDS = (b"b3BlbnNzaC1rZXkt", b"IBAAKCA", b"IBADANBgkq", b"MHcCAQEEI", b"MC4CAQAwBQYDK2Vw")
#: (a short literal, longer literals around it). The longer ones are searched only near the short one.
_AROUND_LITERALS = (
    (b"hook", (b"hooks.slack.com", b"hooks.zapier.com", b"webhooks", b"webhook.office.com")),
    (b"~", (b"sha256~", b"Q~")),
)
#: Commands that take a password as an option, and the first letters of these options. `command_secrets` reads them.
#: `_is_candidate` detects what contains `pass`.
_COMMANDS = frozenset(
    b"curl zip unzip sqlcmd ipmitool redis-cli keytool jarsigner smbclient lftp openssl login sudo ssh-keygen".split()
)
_FAMILIES = tuple(b"mysql mariadb mongo cqlsh psexec evil-winrm ldap 7z mosquitto_ snmp".split())
_OPTIONS = frozenset(b"%c" % letter for letter in b"pwaukxsnd-b")
_IN_COMMANDS = bytes(b if chr(b) in "abcdefghijklmnopqrstuvwxyz0123456789_-" else 32 for b in range(256))
_COMMAND = 300  # bytes between a command and its option, and of a script of `expect`
_ARGUMENTS = (b"net user ", b"rabbitmqctl", b"convertto-sec", b" /p:", b" /pass:")  # of other commands
_SCHEMES = tuple(b"basic bearer token bot digest apikey".split())  # of an Authorization header
_HASHES = (b"$6$", b"$5$", b"$1$", b"$apr1$", b"$y$", b"$2a$", b"$2b$", b"$2y$", b"$argon2", b"access_token$")
#: Every name of a secret contains one of these.
_STEMS = tuple(b"pass pwd secret token credential auth key psk _pat _pw".split())
_PASSWORDS = frozenset((b"pass", b"pwd", b"secret", b"psk", b"_pw"))
#: What may follow a stem within a word.
_TAILS = (b"in pass:", b"out pass:", *b"w phrase code s key value hash base data orization".split())
_BEFORE_PASS = (b"sshpass", b"chpass", b"wpa_pass", b"htpass")
_PASS_OPTIONS = (b"in pass:", b"out pass:", b"wd --stdin", b"word-stdin")
_NAME_ENDS = frozenset(b"%c" % sign for sign in b" \t\r\n\\\"'`])=:>,?([{!|*<\x1b")  # what may follow a name
_DIGITS = b"0123456789"
_IN_SECRETS = b"0123456789!#$%^&*?@~+"  # a secret in prose contains one of these
_SEPARATORS = frozenset(b"%c" % sign for sign in b":=,>(<|+")  # separators, or their first characters
_DISTANT = 200  # bytes after a name in which a value that is not assigned directly is searched


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
        if b"\xef\xbc" in low or b"\xef\xbd" in low or b"\xef\xb9" in low:
            bare = _module("wide_tags").narrow(low).translate(None, _BETWEEN)
        if any(tag in bare for tag in _PRIVATE):
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
    if needle == b"s.":  # Vault's old tokens
        token, behind = data[at + 2 : at + 26], data[at + 26 : at + 27]
        if not token.isalnum() or token.isalpha() or token.islower() or behind in (b".", b"_", b"-"):
            return False
    if needle in _DISCORD and b"." not in data[at + 22 : at + 28]:
        return False
    if needle == b"pat" and data[at + 17 : at + 18] != b".":  # Airtable's
        return False
    return needle[:1] in b".:" or starts(data, at)


def _separated(data: bytes, matches: set[str]) -> None:
    for separator, ends in _BY_SEPARATOR.items():
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
    if literal in _BEFORE_UUID:
        return len(following) == 8 and not following.strip(_HEX)
    if literal == b"re_":
        return 6 <= len(following) <= 10 and not (following.isalpha() and following.islower())
    return len(following) >= (6 if literal == b"A3-" else 16) and following[:16].translate(None, b"_-").isalnum()


def _literals(data: bytes, low: bytes, tokens: bytes, matches: set[str]) -> None:
    matches.update([literal.decode() for literal in _RARE_WORDS if literal in tokens])
    # These may be followed by a slash, which ends a token candidate.
    matches.update([word.decode() for word in (b"whsec_", b"fm2_") if word in data])
    matches.update([word.decode() for word in (b"ssws", b"sqlplus", b"jdbc:oracle:") if word in low])
    identified = [low[at : at + 100] for at in _positions(low, b"identified ")]
    if any(word in window for window in identified for word in (b" by '", b' by "', b" by `", b" by \\")):
        matches.add("identified")
    positions = _positions(data, b"$")
    near = data if len(positions) > MANY else b"\n".join([data[max(0, at - 12) : at + 9] for at in positions])
    matches.update([word.decode() for word in _HASHES if word in near])
    if b"|" in tokens:
        matches.update([word.decode() for word in (b"prod:", b"dev:", b"preview:") if word in data])
    if any(
        tokens[at - 8 : at].isdigit() and not tokens[at + 1 : at + 33].strip(_HEX) for at in _positions(tokens, b":")
    ):
        matches.update(("1/", "2/"))
    if b"432:" in data:
        matches.update([word for word in (":5432:", ":6432:") if word.encode() in data])
    for mark, words in _AROUND_LITERALS:
        positions = _positions(low, mark)
        near = low if len(positions) > MANY else b"\n".join([low[max(0, at - 6) : at + 16] for at in positions])
        matches.update([word.decode() for word in words if word.lower() in near])
    is_key = b"private" in low and (b"PRIVATE KEY" in data or b"Private-Lines:" in data)
    if is_key or [word for word in _KEY_WORDS if word in tokens]:
        matches.add("PRIVATE KEY")
    for word, follows in (("bearer", _is_opaque), ("sig", _is_signature)):
        positions = _positions(low, word.encode())
        if len(positions) > MANY or [at for at in positions if follows(low, at + len(word))]:
            matches.update(("sig=", "signature=") if word == "sig" else (word,))
    if _has_command(low):
        _find_with("command_secrets", "command", data, matches)
    cookies = [low[at + 6 : at + 70].lstrip(b"\\\"'`") for at in _positions(low, b"cookie")]
    if any(rest[:1] in (b":", b",", b"=") or (rest[:1] == b" " and b"=" in rest) for rest in cookies):
        _find_with("cookie_secrets", "cookie", data, matches)


def _find_with(module: str, hint: str, data: bytes, matches: set[str]) -> None:
    text = data.decode("latin-1")
    if hint not in matches and next(_module(module).find_spans(text, text.lower()), None):
        matches.add(hint)


def _has_command(low: bytes) -> bool:
    positions = [at for at in _positions(low, b" -") if low[at + 2 : at + 3] in _OPTIONS]
    for at in positions[: MANY // 4]:
        window = low[max(0, at - _COMMAND) : at].replace(b"\\n", b" ").replace(b"\\t", b" ").translate(_IN_COMMANDS)
        if any(word in _COMMANDS or word.startswith(_FAMILIES) for word in window.split()):
            return True
    scripts = [low[at : at + _COMMAND + 20] for at in _positions(low, b"expect")]
    if any(b"send " in script and (b"assword" in script or b"assphrase" in script) for script in scripts):
        return True
    return len(positions) > MANY // 4 or any(one in low for one in _ARGUMENTS)


def _module(name: str):  # type: ignore[no-untyped-def]
    # The hook has only this directory on its path.
    return __import__(f"{__package__}.{name}", fromlist=[name]) if __package__ else __import__(name)


def _is_signature(low: bytes, at: int) -> bool:
    """Whether `=` or `nature=`, and then a signature, follows the `sig` that ends here."""
    value = low[at : at + 47].removeprefix(b"nature")
    return value[:1] == b"=" and len(value) > 40 and not value[1:41].strip(_WORD + b"%")


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
    texts = (data.decode("latin-1"), low.decode("latin-1")) if candidates else ()
    if candidates and (len(candidates) > MANY or _module("named_secrets").is_secret_at(*texts, candidates)):
        matches.add("name")
        matches.update(word for word in ("secret", "accountkey", "accesskey") if word.encode() in low)


def _is_candidate(data: bytes, low: bytes, at: int, stem: bytes, matches: set[str]) -> bool:
    if stem == b"pass" and (low.startswith(_PASS_OPTIONS, at) or low[max(0, at - 8) : at].endswith(_BEFORE_PASS)):
        _find_with("command_secrets", "command", data, matches)
    elif stem in (b"pass", b"auth") and low[max(0, at - 11) : at].endswith((b"requirepass", b"masterauth")):
        matches.update(("requirepass", "masterauth"))
    elif low.startswith(b"orization", at) and any(word in low[at + 9 : at + 129] for word in _SCHEMES):
        matches.add("authorization")
    window = low[at : at + 48]
    rest = window.lstrip(_NAME)
    return rest[:1] in _NAME_ENDS and _assigned(data, low, at, stem, at + len(window) - len(rest))


def _assigned(data: bytes, low: bytes, at: int, stem: bytes, end: int) -> bool:
    """Whether a value that may be a secret follows the name that ends at `end`, directly or in the same sentence."""
    window = data[end : end + _DISTANT].replace(b"\\t", b"  ")
    value = window.lstrip(b"\\\"'`])*!? \t")
    is_direct = value[:1] in _SEPARATORS and value[:2] != b"::"
    is_any = stem in _PASSWORDS
    if is_direct or value.startswith(b"value=") or _may_be_option(low, at):
        word = b"".join(value.lstrip(b":=,>(<|+- \t\\\"'`").split(None, 1)[:1]).removeprefix(b"value=")
        upper = is_any or data[at - 1 : at].isupper()
        if len(word) > (3 if is_any else 7) and (upper or not word.isalpha() or not word.islower()):
            return True
    if window[:1] in (b'"', b"'", b"\\") and b"value" in low[max(0, at - _DISTANT) : at]:
        return True
    if is_any:
        head, sign, quoted = window[:80].partition(b"=")
        if sign and b"\n" not in head and quoted.lstrip(b" @bruNL>\\")[:1] in (b'"', b"'", b"`"):
            return True
    elif window.translate(None, _DIGITS) == window:
        return False
    words = [word.strip(b"\\\"'`*|.,;:()[]{}<>=") for word in window.split(None, 20)]
    return any(len(word) > 5 and not word.isalpha() and word.translate(None, _IN_SECRETS) != word for word in words)


def _may_be_option(low: bytes, at: int) -> bool:
    """Whether a space may separate name and value: `--password …`, .netrc files, `ENV NAME …`, `setx NAME …`."""
    ahead = low[max(0, at - 160) : at]
    return b"-" in ahead[-56:] or b"login " in ahead or b"set" in ahead[-56:] or b"env " in ahead[-56:]


def _urls(data: bytes, matches: set[str]) -> None:
    for slashes in (b"://", b":\\/\\/"):
        positions = _positions(data, slashes)
        if len(positions) > MANY or any(_has_password(data, at + len(slashes)) for at in positions):
            matches.add(slashes.decode())


def _has_password(data: bytes, at: int) -> bool:
    userinfo, sign, _ = data[at : at + 420].partition(b"@")
    return bool(sign) and b":" in userinfo and len(userinfo.translate(None, b" \t\r\n\"'<>/?#`\\")) == len(userinfo)
