"""Finds secrets in command lines: `curl -u user:…`, `mysql -p…`, `sshpass -p …`, `echo … | sudo -S`, `net user bob …`.

Uses string methods only and imports nothing of others but `cookie_secrets`, because the hook runs it.
"""

try:
    from .cookie_secrets import header_spans
except ImportError:  # the hook has only this directory on its path
    from cookie_secrets import header_spans  # type: ignore[no-redef,import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LINE = 300  # characters of a command that are searched
WORDS = 12  # words of it

#: Where an option and its password may stand: `-p …`, `-p…`, or either.
_APART = 1
_ATTACHED = 2
_EITHER = 3

#: The command, its options that take a password, where the password stands, and what separates it from a user's name.
#: `prefilter` has the commands, too.
_OPTIONS: tuple[tuple[str, tuple[str, ...], int, str], ...] = (
    ("sshpass", ("-p",), _EITHER, ""),
    ("mysql", ("-p",), _ATTACHED, ""),
    ("mariadb", ("-p",), _ATTACHED, ""),
    ("mongo", ("-p",), _APART, ""),
    ("cqlsh", ("-p",), _APART, ""),
    ("psexec", ("-p",), _APART, ""),
    ("winrm", ("-p",), _APART, ""),
    *((name + " login", ("-p",), _APART, "") for name in ("docker", "podman", "registry", "oc", "cf", "az", "acr")),
    ("ldap", ("-w",), _EITHER, ""),
    ("7z", ("-p",), _ATTACHED, ""),
    ("zip", ("-P",), _EITHER, ""),
    ("sqlcmd", ("-P",), _EITHER, ""),
    ("ipmitool", ("-P",), _EITHER, ""),
    ("mosquitto_", ("-P",), _EITHER, ""),
    ("redis-cli", ("-a",), _APART, ""),
    ("keytool", ("-storepass", "-keypass", "-srcstorepass", "-deststorepass", "-srckeypass", "-new"), _APART, ""),
    ("jarsigner", ("-storepass", "-keypass"), _APART, ""),
    ("cmdkey", ("/pass:",), _ATTACHED, ""),
    ("freerdp", ("/p:",), _ATTACHED, ""),
    ("snmp", ("-A", "-X"), _APART, ""),
    ("smbclient", ("-U", "--user"), _EITHER, "%"),
    ("lftp", ("-u",), _APART, ","),
    ("ssh-keygen", ("-N", "-P"), _APART, ""),
    ("curl", ("-u", "--user", "--proxy-user"), _EITHER, ":"),
    ("openssl", ("-passin", "-passout"), _APART, "pass:"),
    ("openssl", ("-k",), _APART, ""),
)
#: The command and the number of the argument that is a password.
_ARGUMENTS = (
    ("rabbitmqctl add_user", 2),
    ("rabbitmqctl change_password", 2),
    ("rabbitmqctl authenticate_user", 2),
    ("net user", 2),
    ("wpa_passphrase", 2),
    ("convertto-securestring", 1),
    ("htpasswd -b", 3),
    ("htpasswd -cb", 3),
    ("htpasswd -nb", 2),
)
#: Commands that read a password from a pipe.
_READERS = ("sudo -s", "chpasswd", "passwd --stdin", "--password-stdin")


def find_spans(text: str, low: str) -> "Iterator[tuple[int, int]]":
    """Yield start and end of each secret. `low` is the text in lower case."""
    for command, options, place, sign in _OPTIONS:
        for at in _ends(low, command):
            line = _line(text, at)
            yield from (span for option in options if (span := _of_option(line, at, option, place, sign)))
    for command, number in _ARGUMENTS:
        yield from (span for at in _ends(low, command) if (span := _argument(_line(text, at), at, number)))
    for reader in _READERS:
        yield from (span for at in _ends(low, reader) if (span := _piped(text, low, at - len(reader))))
    yield from (span for at in _ends(low, "expect ") if (span := _sent(text, low, at)))
    for at in _ends(low, "curl"):
        yield from _cookies(_line(text, at, (" | ", " && ", " || ")), at)


def _cookies(line: str, at: int) -> "Iterator[tuple[int, int]]":
    option = next((one for one in (" -b ", " --cookie ") if one in line), "")
    if option:
        word_at, word = _word(line, line.index(option) + len(option))
        yield from header_spans(word, at + word_at)


def _ends(low: str, word: str) -> "Iterator[int]":
    at = low.find(word)
    while at >= 0:
        yield at + len(word)
        at = low.find(word, at + len(word))


def _line(text: str, at: int, marks: tuple[str, ...] = (" | ", " && ", " || ", "; ")) -> str:
    r"""Return the rest of a command, up to the end of the line (also an escaped `\n`) or to the next command."""
    line = text[at : at + LINE].partition("\n")[0].partition("\\n")[0]
    for mark in marks:
        line = line.partition(mark)[0]
    return line


def _of_option(line: str, at: int, option: str, place: int, sign: str) -> "tuple[int, int] | None":
    option_at = line.find(" " + option)
    while option_at >= 0:
        start = option_at + 1 + len(option)
        following = line[start:]
        spaces = len(following) - len(following.lstrip(" ="))
        if place & (_APART if spaces else _ATTACHED):
            word_at, word = _word(line, start + spaces)
            if sign:
                name, found, word = word.partition(sign)
                if not found or (name and sign == "pass:"):
                    return None
                word_at += len(name) + len(sign)
            return _span(at + word_at, word)
        option_at = line.find(" " + option, start)
    return None


def _span(at: int, word: str) -> "tuple[int, int] | None":
    if len(word) < 4 or word.startswith(("$", "<", "-", "[redacted:")) or (word.isdigit() and len(word) < 6):
        return None
    return at, at + len(word)


def _argument(line: str, at: int, number: int) -> "tuple[int, int] | None":
    """Return the span of an argument, if it is no plain word. Options do not count."""
    position = 0
    for _ in range(WORDS):
        rest = line[position:]
        if not rest.strip() or (position == 0 and not rest[0].isspace() and not rest[0].isalpha()):
            return None
        begin = position + len(rest) - len(rest.lstrip())
        word_at, word = _word(line, begin)
        position = max(word_at + len(word), begin + 1)
        position += len(line[position : position + 9]) - len(line[position : position + 9].lstrip("\\\"'`"))
        number -= not word.startswith(("-", "/", "*")) and begin > 0
        if number == 0:
            return _span(at + word_at, word) if not word.isalpha() and word.isprintable() else None
    return None


def _sent(text: str, low: str, at: int) -> "tuple[int, int] | None":
    """Return the span of the password that a script of `expect` sends."""
    window = low[at : at + LINE]
    send = window.find("send ")
    if send < 0 or not any(word in window[:send] for word in ("assword", "assphrase")):
        return None
    word_at, word = _word(text, at + send + len("send "))
    return _span(word_at, word.partition("\\")[0])


def _word(line: str, at: int) -> tuple[int, str]:
    """Return position and text of one shell word, without its quotes."""
    rest = line[at : at + LINE]
    slashes = len(rest) - len(rest.lstrip("\\"))
    quote = rest[slashes : slashes + 1]
    if quote in ("'", '"') and quote:
        start = slashes + 1
        return at + start, rest[start:].partition(quote)[0].rstrip("\\")
    words = rest.split(None, 1)
    word = words[0] if words else ""
    for mark in ('"', "'", "`"):
        word = word.partition(mark)[0]
    return at, word.rstrip("\\")


def _piped(text: str, low: str, at: int) -> "tuple[int, int] | None":
    """Return the span of the password that `echo` or `printf` pipes into the command at this position."""
    begin = max(0, at - LINE)
    window = low[begin:at]
    echo = max(window.rfind("echo "), window.rfind("printf "))
    pipe = window.rfind("|")
    if echo < 0 or pipe < echo or "\n" in window[echo:] or "|" in window[echo:pipe]:
        return None
    start = begin + echo + window[echo:].find(" ")
    spaces = len(text[start : start + 20]) - len(text[start : start + 20].lstrip(" "))
    word_at, word = _word(text[: begin + pipe], start + spaces)
    if word in ("-n", "-e", "%s", "'%s"):
        word_at, word = _word(text[: begin + pipe], word_at + len(word) + 1)
    name, sign, secret = word.partition(":")  # user:password, for chpasswd
    if sign and low.startswith("chpasswd", at):
        word_at, word = word_at + len(name) + 1, secret
    if len(word) < 4 or word.startswith(("$", "<", "[redacted:")):
        return None
    return word_at, word_at + len(word)
