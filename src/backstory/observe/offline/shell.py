"""Shell commands, read: the simple commands in a line, and what each is for."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from backstory.observe.offline.programs import (
    GIT_TOLD,
    NOISE,
    PURPOSE,
    RUNNERS,
    SUBCOMMANDS,
    TASK_RUNNERS,
    TASKS,
    WRAPPERS,
)

_TOKEN = re.compile(
    r"(?P<heredoc><<-?[ \t]*['\"]?(?P<mark>\w{1,40})['\"]?)|(?P<op>&&|\|\||;;?|\|&?|\n|(?<![<>])&(?![>&\d]))"
    r"|(?P<redirect>\d?>{1,2}&?[ \t]*[^\s;&|]{0,200}|&>{1,2}[ \t]*[^\s;&|]{0,200}|<[ \t]*[^\s<(;&|]{1,200})"
    r"|(?P<word>(?:[^\s'\"\\;&|<>]|\\[\s\S]|'[^']*'|\"(?:[^\"\\]|"
    r"\\[\s\S])*\"|(?<=[^\s])<|['\"])+)|(?P<space>[ \t]+)|(?P<other>.)",
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its words without wrappers, and what it is for."""

    words: tuple[str, ...]
    purpose: str  #: test lint types format build install migrate serve git pr version noise other
    text: str  #: as it is told
    background: bool = False

    @property
    def key(self) -> str:
        """What two runs of the same thing have in common."""
        name = self.words[0] if self.words else ""
        targets = [word for word in self.words[1:] if not word.startswith("-")]
        if name in SUBCOMMANDS:
            count = 3 if targets[:1] in (["run"], ["run-script"], ["compose"]) else 2
            return " ".join([name, *targets[: count - 1]])
        return name if self.purpose in ("test", "lint", "types", "build") else " ".join([name, *targets[:1]])

    @property
    def targets(self) -> tuple[str, ...]:
        """The paths and names it was narrowed to."""
        skip = len(self.key.split())
        values = [word for word in self.words if not word.startswith("-")][skip:]
        return tuple(word for word in values if word not in ("./...", ".", "all") and not word.isdigit())


def read_commands(line: str) -> list[Command]:
    """The simple commands of a shell line, in order."""
    found = []
    for words, background in _split(line[:20_000]):
        if command := _read(words, background):
            found.append(command)
    return found


def _split(line: str) -> list[tuple[list[str], bool]]:
    """The words of each simple command; operators, redirections and here-documents are left out."""
    parts: list[tuple[list[str], bool]] = []
    words: list[str] = []
    at = 0
    heredocs: list[str] = []
    while at < len(line) and (token := _TOKEN.match(line, at)):
        at = token.end()
        if token["heredoc"]:
            heredocs.append(token["mark"])
        elif operator := token["op"]:
            if words:
                parts.append((words, operator == "&"))
                words = []
            if operator == "\n" and heredocs:
                for mark in heredocs:
                    end = re.compile(rf"^[ \t]*{mark}\b", re.M).search(line, at)
                    at = end.end() if end else len(line)
                heredocs = []
        elif token["word"]:
            words.append(_unquote(token["word"]))
    if words:
        parts.append((words, False))
    return parts[:60]


def _unquote(word: str) -> str:
    if word[0] in "'\"" and word[-1] == word[0] and len(word) > 1:
        return word[1:-1]
    return word


def _read(words: list[str], background: bool) -> Command | None:
    told = " ".join(words)
    words = _unwrap([word for word in words if word not in ("(", ")", "{", "}", "!", "do", "then", "else")])
    if not words:
        return None
    words = [posixpath.basename(words[0]) or words[0], *words[1:]]
    return Command(tuple(words), _purpose_of(words), told[:300], background)


def _unwrap(words: list[str]) -> list[str]:
    """The words of the program that is really run."""
    for _ in range(8):
        while words and _ASSIGNMENT.match(words[0]):
            words = words[1:]
        if not words:
            break
        name = posixpath.basename(words[0])
        rest = [word for word in words[1:] if not word.startswith("-")]
        if name in WRAPPERS:
            words = rest[WRAPPERS[name] :]
        elif rest and (name, rest[0]) in RUNNERS:
            words = words[words.index(rest[0]) + 1 :]
            words = words[2:] if words[:1] == ["--with"] else words[1:] if words[:1] == ["--"] else words
        elif name in ("npx", "bunx", "uvx", "pipx") and rest[:1] not in ([], ["install"]):
            words = words[words.index(rest[0]) :]
        elif re.fullmatch(r"python[\d.]*|py", name) and "-m" in words[1:4]:
            words = words[words.index("-m") + 1 :]
        elif (
            re.fullmatch(r"python[\d.]*|php|ruby", name)
            and rest[:1]
            and posixpath.basename(rest[0]) in ("manage.py", "artisan")
        ):
            words = [posixpath.basename(rest[0]), *rest[1:]]
        else:
            break
    return words


def _purpose_of(words: list[str]) -> str:
    name = words[0]
    targets = [word for word in words[1:] if not word.startswith("-")]
    second = targets[0] if targets else words[1].lower() if len(words) > 1 else ""
    if name == "git":
        return _git_purpose(words, targets)
    if name == "gh":
        return (
            "pr"
            if targets[:2] in (["pr", "create"], ["pr", "merge"], ["issue", "create"], ["release", "create"])
            else "noise"
        )
    if words[1:2] in (["--version"], ["-V"], ["version"]) or (
        name in ("node", "java", "ruby") and words[1:2] in (["-v"], ["-version"])
    ):
        return "version"
    purpose = PURPOSE.get(f"{name} {second}") or PURPOSE.get(name)
    if purpose is None and name in TASK_RUNNERS:
        purpose = _task_purpose(name, targets)
    return purpose or ("noise" if name in NOISE or not re.match(r"[\w./~-]", name) else "other")


def _task_purpose(name: str, targets: list[str]) -> str:
    script = next((word for word in targets if word not in ("run", "run-script", "r") and "=" not in word), "")
    found = (kind for kind, pattern in TASKS.items() if pattern.search(script))
    return next(found, "build" if name == "make" else "other")


def _git_purpose(words: list[str], targets: list[str]) -> str:
    if words[1:2] == ["-C"]:
        targets = targets[1:]
    second = targets[0] if targets else ""
    if second in GIT_TOLD:
        return "git"
    creates = {"-b", "-c", "-B", "-C", "--create"}
    if second in ("checkout", "switch"):
        return "git" if creates & set(words) else "noise"
    if second in ("reset", "stash", "worktree"):
        return "git" if "--hard" in words or targets[1:2] in (["pop"], ["drop"], ["add"]) else "noise"
    return "noise"
