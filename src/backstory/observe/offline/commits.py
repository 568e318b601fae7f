"""Commits: those that a command made. A line of an output that only looks like one is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backstory.observe.offline.acts import Act
from backstory.observe.offline.shell import QUIET, Command
from backstory.observe.offline.text import clip

#: Characters of the subject of a commit.
SUBJECT = 120
#: Characters by which a given subject is found in the output: a hook may add to it.
KNOWN_SUBJECT = 30
_COMMITTED = re.compile(r"^\[[^\[\]\n]{1,240}[ ）)](?P<hash>[0-9a-f]{7,40})\] (?P<subject>.*)$", re.M)
_NOTHING = re.compile(r"^(?:nothing (?:added )?to commit|no changes added to commit)", re.M)
_FACT = re.compile(r"Commit(?: [0-9a-f]{7,10})?: ")
_HERE_DOCUMENT = re.compile(r"^\$\(cat <<-?\s*['\"]?\w+['\"]?\s*")
_MESSAGE = re.compile(r"-[a-z]*m|--message")
_WITH_MESSAGE = re.compile(r"(?:-[a-z]*m|--message=)(.+)", re.DOTALL)
#: Commands of git that make commits.
_MAKES = frozenset(("commit", "merge", "cherry-pick", "revert", "am", "rebase"))
#: Those that print nothing of files and messages, or nothing at the beginning of a line.
_SILENT = frozenset(
    "add push fetch checkout switch branch stash tag rm mv restore reset config status rev-parse remote init".split()  # noqa: SIM905
)
_INDENTS = frozenset(("log", "diff", "show"))
_FORMATTED = re.compile(r"--(?:format|pretty|exec)|-x$|^[^-].*:")
#: What `git show` indents if it is named: a commit. A tag or a file is printed as it is.
_COMMIT_NAME = re.compile(r"-.*|HEAD[~^\d]*|@|[0-9a-f]{7,40}")
#: Words after which a command makes no commit, or only prints.
_MAKES_NONE = frozenset("--dry-run --abort --quit --help -h --show-current-patch --porcelain --short show list".split())  # noqa: SIM905
#: Those of them that print what is stored, if they are asked.
_LISTS = frozenset(("stash", "tag", "branch"))
#: Other programs that print nothing of files.
_SILENT_PROGRAMS = (QUIET - {"tail", "head", "tee", "cat", "grep", "sed", "echo", "printf", "source"}) | frozenset(
    "true : fi done mkdir rm cp mv touch chmod ln test [".split()  # noqa: SIM905
)
#: Options of git before its command that are followed by a value.
_WITH_VALUE = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"))


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that was made. Its subject may be a stranger's: it is quoted."""

    subject: str
    digest: str
    act: Act

    def __str__(self) -> str:
        subject = f"“{self.subject}”"
        return f"Commit {self.digest[:10]}: {subject}" if self.digest else f"Commit: {subject}"


def is_commit(fact: str) -> bool:
    """Whether a fact tells a commit."""
    return _FACT.match(fact) is not None


def read_commits(commands: Sequence[Command], act: Act) -> list[Commit]:
    """Return the commits that the commands of an act made."""
    makers = [words for command in commands if (words := _git(command))[:1] and words[0] in _MAKES]
    makers = [words for words in makers if _MAKES_NONE.isdisjoint(words[1:])]
    if not makers:
        return []
    given = [subject for words in makers if words[0] == "commit" and (subject := _subject(words))]
    lines = list(_COMMITTED.finditer(act.output))
    known = [line for subject in given if (line := _line_of(subject, lines))]
    # Each command prints one line. If there are more, a hook printed the others, and nobody knows which.
    is_clear = len(lines) <= len(makers) or not all(words[0] == "commit" for words in makers)
    if not known and is_clear and all(map(_is_silent, commands)):
        known = lines[-len(makers) :]
    if known:
        return [Commit(clip(line["subject"], SUBJECT), line["hash"], act) for line in known]
    if act.failed or _NOTHING.search(act.output):
        return []
    return [Commit(clip(subject, SUBJECT), "", act) for subject in given]


def _git(command: Command) -> Sequence[str]:
    """The command of git and its arguments; empty for another program."""
    words = command.words
    if words[:1] != ("git",):
        return ()
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _WITH_VALUE else 1
    return words[at:]


def _is_silent(command: Command) -> bool:
    """Whether a command prints nothing that looks like the line of a commit and is none."""
    words = _git(command)
    if not words:
        is_plain = command.words[:1] in (("echo",), ("printf",)) and not any(
            set("$`[") & set(one) for one in command.words
        )
        return is_plain or command.words[:1] == () or command.words[0] in _SILENT_PROGRAMS
    if any(_FORMATTED.search(word) for word in words[1:]) and words[0] in _INDENTS | _LISTS | {"rebase"}:
        return False
    if words[0] == "show":
        return all(map(_COMMIT_NAME.fullmatch, words[1:]))
    is_list = words[0] in _LISTS and not _MAKES_NONE.isdisjoint(words[1:])
    return not is_list and words[0] in _MAKES | _SILENT | _INDENTS


def _line_of(subject: str, lines: Sequence[re.Match[str]]) -> re.Match[str] | None:
    """The line that a commit with a given subject printed: the one that says nothing else, if there is one."""
    fitting = [line for line in lines if _fits(line["subject"], subject)]
    return next((line for line in fitting if _plain(line["subject"]) == _plain(subject)), next(iter(fitting), None))


def _fits(subject: str, given: str) -> bool:
    one, other = _plain(subject), _plain(given)
    return one.startswith(other[:KNOWN_SUBJECT]) or (
        len(one) >= KNOWN_SUBJECT and other.startswith(one[:KNOWN_SUBJECT])
    )


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _subject(words: Iterable[str]) -> str:
    """The subject that is given on the command line; empty if the shell makes it."""
    given, is_next = "", False
    for word in words:
        if is_next:
            given = word
            break
        joined = _WITH_MESSAGE.fullmatch(word)
        if joined and not _MESSAGE.fullmatch(word):
            given = joined[1]
            break
        is_next = _MESSAGE.fullmatch(word) is not None
    text = _HERE_DOCUMENT.sub("", given.strip("'\"")).strip()
    subject = text.split("\n")[0].strip("'\"")
    return "" if not _plain(subject) or re.search(r"\$[({\w]|`", subject) else clip(subject, SUBJECT)
