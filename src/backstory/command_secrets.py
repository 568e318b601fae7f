"""Finds secrets in command lines: `curl -u user:…`, `mysql -p…`, `sshpass -p …`, `echo … | sudo -S`.

Uses string methods only and imports nothing, because the hook runs it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LINE = 300  # characters of a command that are searched

#: The command, its options that take a password, and whether the password may be attached to the option.
_OPTIONS: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("sshpass", ("-p",), True),
    ("mysql", ("-p",), True),
    ("docker login", ("-p",), False),
    ("podman login", ("-p",), False),
    ("redis-cli", ("-a",), False),
    ("curl", ("-u", "--user", "--proxy-user"), False),
    ("openssl", ("-passin", "-passout", "-k"), False),
)
#: Commands that read a password from a pipe.
_READERS = ("sudo -s", "chpasswd", "passwd --stdin", "--password-stdin")


def find_spans(text: str, low: str) -> "Iterator[tuple[int, int]]":
    """Yield start and end of each secret. `low` is the text in lower case."""
    for command, options, attached in _OPTIONS:
        at = low.find(command)
        while at >= 0:
            at += len(command)
            for option in options:
                if span := _of_option(text, _line(text, at), at, option, attached):
                    yield span
            at = low.find(command, at)
    for reader in _READERS:
        at = low.find(reader)
        while at >= 0:
            if span := _piped(text, low, at):
                yield span
            at = low.find(reader, at + len(reader))


def _line(text: str, at: int) -> str:
    r"""Return the rest of a command, up to the end of the line (also an escaped `\n`) or to the next command."""
    line = text[at : at + LINE].partition("\n")[0].partition("\\n")[0]
    for mark in (" | ", " && ", " || ", "; "):
        line = line.partition(mark)[0]
    return line


def _of_option(text: str, line: str, at: int, option: str, attached: bool) -> "tuple[int, int] | None":
    option_at = line.find(" " + option)
    if option_at < 0:
        return None
    start = option_at + 1 + len(option)
    following = line[start:]
    spaces = len(following) - len(following.lstrip(" ="))
    if not spaces and not attached:
        return None
    if spaces and option == "-p" and attached and not text.startswith("sshpass", at - 7):
        return None  # `mysql -p shop` prompts for the password
    word_at, word = _word(line, start + spaces)
    if option in ("-u", "--user", "--proxy-user", "-passin", "-passout"):
        name, sign, secret = word.partition(":")
        if not sign or (option.startswith("-pass") and name != "pass"):
            return None
        word_at, word = word_at + len(name) + 1, secret
    if len(word) < 4 or word.startswith(("$", "<", "-", "[redacted:")) or (word.isdigit() and len(word) < 6):
        return None
    return at + word_at, at + word_at + len(word)


def _word(line: str, at: int) -> tuple[int, str]:
    """Return position and text of one shell word, without its quotes."""
    rest = line[at:]
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
