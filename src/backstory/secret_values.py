"""Decides whether the value of a name such as `password` is a secret, or a reference, a type, a path or a placeholder.

Uses string methods only and imports nothing, because the hook runs it. `named_secrets` calls it.
"""

#: Levels: which values of a name count as secrets.
ANY = 3  # names of passwords: everything except references, code and placeholders
MIXED = 2  # names of tokens and API keys: values that do not consist of words
OPAQUE = 1  # `key`, `auth`: values that look random

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = "0123456789"
IDENTIFIER = LETTERS + DIGITS + "_"
NAME = IDENTIFIER + "-"

SHORTEST = {ANY: 6, MIXED: 8, OPAQUE: 12}  # minimum characters of a secret, by level
LONGEST_WORD = 40  # maximum characters of a word
LONGEST_LOOK = 120  # characters of a value that are examined
LONGEST_CODE = 4  # names in a row after which a value counts as an expression
LONGEST_CERTAIN = 2000  # characters of a value in a sentence
SHORTEST_RANDOM = 16  # minimum characters of a value that looks random
SHORTEST_CERTAIN = 4  # minimum characters of a password in a configuration file: PASSWORD=abcd

_CONSONANTS = "bcdfghjklmnpqrstvwxzBCDFGHJKLMNPQRSTVWXZ"
_HEX = "0123456789abcdefABCDEF"
_ODD = "#$%^~@"  # characters that occur in passwords but rarely in expressions
_SIGNS_OF_SECRETS = "-!#$%&*?@^~+=/.:"
_IN_PASSWORDS = "!#$%^&*?@~+"
#: Parts of technical words with digits, which are no passwords.
_TECHNICAL = (
    *("base64", "b64", "base32", "utf", "sha", "md5", "oauth", "http", "x509", "ipv", "ed25519", "pbkdf2", "argon2"),
    *("bcrypt", "i18n", "k8s", "aes", "rsa", "rfc", "iso", "hs256", "rs256", "p256", "python", "version", "127"),
)
_PAIRS = ("<>", "{}", "[]", "()", "%%", "@@", "**")
_REGEX = ("[a-z", "[A-Z", "[0-9", "[^\\", "(?:", "(?P", "\\w", "\\d", "\\S")  # parts of regular expressions
_TYPE_ENDS = ("Key", "Type", "Token", "Secret", "Str", "Byte", "Credential", "Config", "Provider")
_REFERENCES = ("env.", "import.meta", "arn:", "vault:", "op:")  # prefixes of references to a stored value

#: First words of placeholders.
_PLACEHOLDER_WORDS = (
    "your my the some insert enter replace example placeholder todo none null true false undefined nil required "
    "optional string str bytes object boolean number integer password passwd secret token value values redacted hidden"
)
_PLACEHOLDERS = frozenset(_PLACEHOLDER_WORDS.split())
#: Words in the fake values of tests and examples.
_FAKE_WORDS = (
    *("test", "fake", "dummy", "example", "sample", "mock", "stub", "foo", "invalid", "placeholder", "your"),
    *("pass", "pwd", "secret", "token", "credential", "auth", "key"),
)


def is_secret(value: str, level: int, quoted: bool, certain: bool) -> bool:
    """Whether a value is a secret. `certain`: it is assigned in a configuration file, not in code: NAME=value."""
    value = value[:LONGEST_LOOK]
    if any(part in value for part in _REGEX) or (value[0:1].isalpha() and value[1:3] in (":\\", ":/")):
        return False
    value = _without_redactions(value).replace("\\", "")
    shortest = SHORTEST_CERTAIN if certain and level == ANY else SHORTEST[level]
    if len(value) < shortest or len(set(value)) < 3 or _is_reference(value) or _is_placeholder(value):
        return False
    if " " in value:
        return level == ANY and quoted and _is_passphrase(value)
    if value.isdigit() or level == OPAQUE:
        return level == ANY or (not value.isdigit() and _is_opaque(value) and (quoted or not _is_code(value)))
    if certain or quoted:
        is_made_up = is_fake(value) or (level == MIXED and quoted and _is_words(value))
        return not is_made_up or (certain and level == ANY)
    return not _is_code(value) and (level == ANY or not (_is_words(value) or is_fake(value)))


def _without_redactions(value: str) -> str:
    """Remove the parts of a value that are redacted already."""
    while (at := value.find("[redacted:")) >= 0:
        end = value.find("]", at)
        value = value[:at] + (value[end + 1 :] if end > 0 else "")
    return value


def _is_reference(value: str) -> bool:
    """Whether a value refers to another value: $NAME, ${…}, {{…}}, <…>, %s, a URL, a path."""
    first = value[0]
    if first == "$" and (value[1:2] in ("{", "(") or not value[1:].strip(IDENTIFIER + ":.")):
        return True
    if first + value[-1] in _PAIRS and not value[1:-1].strip(NAME + " .:/|,*\"'$%!{}"):
        return True
    if (
        "..." in value
        or "…" in value
        or "***" in value
        or value[1:2] == ":"
        or (first == "<" and value.partition(">")[0][1:].isalpha())
    ):
        return True
    for opening, closing in (("://", ""), ("${", "}"), ("{{", "}}"), ("$(", ")"), ("%(", ")s")):
        if opening in value and closing in value.partition(opening)[2]:
            return True
    is_path = value.startswith(("/", "./", "../", "~/")) and not value.strip(NAME + "/.~@+")
    is_path = is_path and all(len(part) < 24 for part in value.split("/"))
    return is_path or value.startswith(_REFERENCES)


def _is_placeholder(value: str) -> bool:
    word = value[: len(value) - len(value.lstrip(LETTERS + DIGITS))]
    return word.lower() in _PLACEHOLDERS


# Words


def words(name: str) -> list[str]:
    """Split `clientSecret_v2` into its words, in lower case."""
    spread: list[str] = []
    last = ""
    for letter in name:
        if letter in "_-":
            spread.append(" ")
        else:
            spread.append(" " + letter if letter.isupper() and last.islower() else letter)
        last = letter
    return "".join(spread).lower().split()


def _segments(value: str) -> list[str]:
    for mark in "-./:":
        value = value.replace(mark, "_")
    return [part for part in value.split("_") if part]


def _is_word(part: str) -> bool:
    """Whether this is a word or a CamelCase name, with or without a short number at its end, or a short number."""
    if len(part) > LONGEST_WORD:
        return False
    letters = part.rstrip(DIGITS)
    if not letters.isalpha() or len(part) - len(letters) > 4:
        return part.isdigit() and len(part) <= 4
    humps = words(letters) if not (letters[1:].islower() or letters.isupper()) else [letters.lower()]
    if any(len(hump) > 5 and not hump.strip(_CONSONANTS) for hump in humps):
        return False
    short = sum(len(hump) < 3 for hump in humps)
    return (len(humps) == 1 or len(letters) >= 3 * len(humps)) and 3 * short <= len(humps) + 2


def _is_words(value: str) -> bool:
    """Whether a value consists of words: `client_secret_basic`, `AccessToken`, `identifier`."""
    if value.strip(NAME + "./:"):
        return False
    parts = _segments(value)
    if len(parts) == 1:
        return parts[0].isalpha() and _is_word(parts[0])
    return all(_is_word(part) for part in parts)


def is_fake(value: str) -> bool:
    """Whether a value consists of words that show that it is not a real secret: `test-token-1`, `password`."""
    low = value.lower()
    return any(word in low for word in _FAKE_WORDS) and all(_is_word(part) for part in _segments(value))


def _is_passphrase(value: str) -> bool:
    """Whether several words are a passphrase rather than a label or a sentence."""
    parts = value.split()
    if len(parts) > 12 or value[-1] in ".:?!" or value[0].isupper():
        return False
    return len(parts) > 3 or any(not part.isalpha() for part in parts)


# Code


def _is_code(value: str, inside: int = 0) -> bool:
    """Whether a value is an expression: a name, `a.b`, `f(…)`, `x[0]`, `T<U>`. `inside` counts the names before it."""
    if inside == LONGEST_CODE:
        return True
    head = value[: len(value) - len(value.lstrip(IDENTIFIER))]
    rest = value[len(head) :]
    if not head:
        inner = value.lstrip("[]({&*!@#-+.")
        return inner != value and len(inner) > 1 and _is_code(inner, inside)
    if head[0].isdigit() or (head[0].isupper() and head.rstrip("s").endswith(_TYPE_ENDS)):
        return not head[0].isdigit()
    parts = _segments(head)
    if not rest:
        return _is_words(head) or (("_" in head or inside > 0) and all(_is_word(part) for part in parts))
    if len(head) == 1:
        return rest[0] == "." and rest[1:2].isalpha() and not rest.strip(IDENTIFIER + ".()[],:;")
    return all(_is_name(part) for part in parts) and _continues_code(rest, inside)


def _continues_code(rest: str, inside: int) -> bool:
    """Whether this can follow a name within an expression."""
    if rest[0] in "([{<|":
        return _is_bracketed(rest)
    inner = rest.lstrip(".?!-:>/,+*%=")
    if not inner:
        return rest in ("+", ".", "/", "%", "=", "==", ":")  # the string that follows was cut off
    return inner != rest and _is_code(inner, inside + 1)


def _is_bracketed(rest: str) -> bool:
    """Whether this is a pair of brackets with names between them, as in a call."""
    depth, spread = 0, []
    for sign in rest:
        depth += (sign in "([{<") - (sign in ")]}>")
        if depth < 0 or sign in _ODD:
            return False
        spread.append(sign if sign in IDENTIFIER else " ")
    parts = "".join(spread).split()
    return all(len(part) < 3 or part.isdigit() or _is_words(part) or _is_name(part) for part in parts)


def _is_name(part: str) -> bool:
    """Whether this is part of an identifier. It may contain a number: `b64decode`, `x509`."""
    start = part.rstrip(DIGITS)
    if start != part and start.isalpha() and start.islower() and (len(start) > 1 or len(part) < 8):
        return True
    letters = part.strip(DIGITS)
    if not letters.isalpha():
        inner = letters.lstrip(LETTERS).rstrip(LETTERS)
        letters = letters.replace(inner, "") if inner.isdigit() else ""
    return _is_word(part) or (2 * len(letters) > len(part) > 3 and _is_word(letters))


def _is_opaque(value: str) -> bool:
    """Whether a value looks random: upper case, lower case and digits alternate often. Hashes do not count."""
    if value.strip(IDENTIFIER + "+/=~.-%") or "=" in value.rstrip("="):
        return False
    if value.islower() or not value.strip(_HEX + "-") or _is_words(value):
        return False
    changes, last = 0, ""
    for sign in value:
        kind = "digit" if sign.isdigit() else "capital" if sign.isupper() else "small" if sign.islower() else "sign"
        changes += kind != last and (last, kind) != ("capital", "small")
        last = kind
    has_digit = value.strip(LETTERS) != "" and any(sign in value for sign in DIGITS)
    return changes > len(value) // (4 if has_digit else 5)


# Values that show by themselves that they are secrets


def is_certain(value: str, level: int) -> bool:
    """Whether a value near a name can only be a secret: it looks like no word, number, version, date or path."""
    value = value.removeprefix("base64:")
    if not SHORTEST[level] <= len(value) <= LONGEST_CERTAIN or value.strip(IDENTIFIER + _SIGNS_OF_SECRETS):
        return False
    letters = sum(sign.isalpha() for sign in value)
    if letters < 3 or value[0] in "-/.=" or _is_reference(value) or _is_placeholder(value) or is_fake(value):
        return False
    if _is_random(value):
        return True
    return level == ANY and _is_chosen(value)


def _is_random(value: str) -> bool:
    """Whether a value looks made by a program: letters and digits alternate often. Also true for hexadecimal digits."""
    if len(value) < SHORTEST_RANDOM or value.strip(IDENTIFIER + "+/=~.-%") or not any(sign in value for sign in DIGITS):
        return False
    parts = _segments(value)
    if len(parts) > 3 and value.isupper() and len({len(part) for part in parts}) == 1:
        return True  # AB1CD-EFG2H-I3JKL-MN4OP
    if "=" in value.rstrip("=") or all(_is_name(part) for part in parts):
        return False
    if any(_is_word(part) and len(part) > 5 for part in parts):
        return False
    changes, last = 0, ""
    for sign in value:
        kind = "digit" if sign.isdigit() else "capital" if sign.isupper() else "small" if sign.islower() else "sign"
        changes += kind != last
        last = kind
    return changes > len(value) // 4


def _is_chosen(value: str) -> bool:
    """Whether a value looks like a password that somebody chose: a word with digits and signs in or around it."""
    has_sign = any(sign in value for sign in _IN_PASSWORDS)
    if any(sign in value for sign in "/.:=") or any(word in value.lower() for word in _TECHNICAL):
        return False
    if not any(sign in value for sign in DIGITS):  # P@ssWord
        return has_sign and value[0].isupper() and value[-1] not in "!?"
    parts = _segments(value.rstrip("!?"))
    if len(parts) > 1:  # maple-harbor-1234
        is_numbered = parts[-1].isdigit() and len(parts[-1]) > 3
        return has_sign or is_numbered or not all(_is_name(part) for part in parts)
    part = parts[0] if parts else ""
    word = part.rstrip(DIGITS)
    if word.isalpha():  # maple123, maple1!
        return len(part) - len(word) > (0 if has_sign else 2)
    return not part[:1].isdigit() or len(part) > 9
