"""Deeds: what commands did that outlives them: commits, pushes, installs, migrations, servers, deletions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from backstory.observe.offline.acts import Act
from backstory.observe.offline.shell import Command, read_commands
from backstory.observe.offline.stories import Outcome
from backstory.observe.offline.text import clip, code, joined, plural


@dataclass(frozen=True, slots=True)
class Deed:
    """One lasting effect, told as a fact."""

    kind: str  #: commit push pr merge branch tag git install migrate serve version delete move
    title: str
    fact: str
    act: Act
    paths: tuple[str, ...] = ()


_COMMIT = re.compile(
    r"^\[(?P<branch>[^\]\s]{1,200}|detached HEAD)(?: \([\w-]+\))? (?P<hash>[0-9a-f]{7,40})\] (?P<message>.*)$", re.M
)
_FILES = re.compile(r"^ (\d+) files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?", re.M)
_PUSHED = re.compile(
    r"^\s*[ *+!-]?\s*(?:\[new (?:branch|tag)\]|[0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40})\s+(\S+)\s+->\s+(\S+)", re.M
)
_URL = re.compile(r"https?://[^\s\"'<>)\]]{4,200}")
_LOCAL = re.compile(
    r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):\d{2,5}|(?:port|Port|PORT)[ :=]{1,3}\d{2,5}"
)
_INSTALLED = re.compile(r"^Successfully installed (.+)$", re.M)
_SCRATCH = re.compile(
    r"^(?:/tmp|/var|/private|~|\$|/dev)|node_modules|__pycache__|\.pyc$|(?:^|/)(?:dist|build|out|target|coverage|"
    r"\.next|\.cache)(?:/|$)|[*?$]|\.(?:log|tmp|out|bak)$"
)


def read_deeds(acts: Sequence[Act], outcomes: Sequence[Outcome]) -> list[Deed]:
    """The lasting effects of the round's commands, oldest first; what failed had none."""
    deeds: list[Deed] = []
    for outcome in outcomes:
        if outcome.act.failed and not _COMMIT.search(outcome.act.output):
            continue
        for command in outcome.commands:
            if reader := _READERS.get(command.purpose):
                deeds += reader(command, outcome.act)
    for act in acts:
        if act.verb == "run" and not act.failed and re.search(r"\b(?:rm|mv)\b", act.command):
            deeds += [deed for command in read_commands(act.command) for deed in _files(command, act)]
    unique = {(deed.kind, deed.fact): deed for deed in deeds}
    return sorted(unique.values(), key=lambda deed: deed.act.at)


def _git(command: Command, act: Act) -> list[Deed]:
    words = [word for word in command.words[1:] if not word.startswith("-")]
    words = words[1:] if command.words[1:2] == ("-C",) else words
    verb, rest = (words[0], words[1:]) if words else ("", [])
    if verb in ("commit", "push"):
        return _commits(command, act) if verb == "commit" else _pushes(act)
    if verb in ("checkout", "switch") and rest:
        return [Deed("branch", f"Create branch {rest[0]}", f"Created branch {code(rest[0])}", act)]
    if verb in ("merge", "rebase", "cherry-pick", "revert") and rest and "Already up to date" not in act.output:
        done = {"merge": "Merged", "rebase": "Rebased onto", "cherry-pick": "Cherry-picked", "revert": "Reverted"}[verb]
        return [Deed("merge", f"{done} {clip(rest[-1], 60)}", f"{done} {code(rest[-1])}", act)]
    if verb == "tag" and rest and not {"-l", "--list", "-d"} & set(command.words):
        return [Deed("tag", f"Tag {rest[0]}", f"Created tag {code(rest[0])}", act)]
    if verb == "reset" and "--hard" in command.words:
        return [Deed("git", "Hard reset", f"Ran {code(command.text)}", act)]
    return []


def _commits(command: Command, act: Act) -> list[Deed]:
    found = []
    for match in _COMMIT.finditer(act.output):
        files = _FILES.search(act.output, match.end())
        size = f", {plural(int(files.group(1)), 'file')}" if files else ""
        message = clip(match["message"], 90)
        fact = f"Commit {match['hash'][:10]} on {clip(match['branch'], 60)}: {message}{size}"
        found.append(Deed("commit", f"Commit {match['hash'][:10]}: {message}", fact, act))
    if not found and (message := _message(command)):
        found.append(Deed("commit", f"Commit: {message}", f"Committed: {message}", act))
    return found


def _message(command: Command) -> str:
    """The subject line given on the command line."""
    words = list(command.words)
    at = next((i for i, word in enumerate(words) if re.fullmatch(r"-[a-z]*m|--message", word)), -1)
    if at < 0 or at + 1 >= len(words):
        return ""
    text = re.sub(r"^\$\(cat <<-?\s*['\"]?\w+['\"]?\s*", "", words[at + 1])
    return clip(text.strip().split("\n")[0].strip("'\""), 90)


def _pushes(act: Act) -> list[Deed]:
    pushed = _PUSHED.findall(act.output)
    if not pushed:
        return []
    names = joined(target for _, target in pushed)
    return [Deed("push", f"Push {names}", f"Pushed {names}", act)]


def _pull_request(command: Command, act: Act) -> list[Deed]:
    url = next(
        (found for found in _URL.findall(act.output) if re.search(r"/(?:pull|issues|releases|merge_requests)/", found)),
        "",
    )
    words = list(command.words)
    title = words[words.index("--title") + 1] if "--title" in words[:-1] else ""
    what = {"pr": "pull request", "issue": "issue", "release": "release"}.get(
        words[1] if len(words) > 1 else "", "pull request"
    )
    done = "Merge" if "merge" in words else "Open"
    number = url.rstrip("/").rsplit("/", 1)[-1] if url else ""
    name = f"{what} {f'#{number}' if number.isdigit() else number}".strip()
    about = f": {clip(title, 100)}" if title else ""
    return [Deed("pr", f"{done} {name}{about}", f"{done.rstrip('e')}ed {name}{about} {url}".strip(), act)]


def _install(command: Command, act: Act) -> list[Deed]:
    names = [
        name for name in command.targets if not name.startswith((".", "/", "-")) and name not in ("install", "pip")
    ]
    if listed := _INSTALLED.search(act.output):
        wanted = {re.split(r"[=<>\[~!;@]", name)[0].lower().replace("_", "-") for name in names}
        installed = listed.group(1).split()[:60]
        names = (
            [name for name in installed if name.rpartition("-")[0].lower().replace("_", "-") in wanted]
            or names
            or installed
        )
    verb = (
        "Removed"
        if re.search(r"\b(?:un|re)?(?:install|move)\b", command.key) and re.search("uninstall|remove", command.key)
        else "Installed"
    )
    if not names:
        return []  # a lock file's worth of packages is no news
    shown = joined((code(name, 60) for name in names), 6)
    return [Deed("install", f"{verb} {joined(names, 3)}", f"{verb} {shown} ({command.key})", act)]


def _migrate(command: Command, act: Act) -> list[Deed]:
    if not re.search(r"\b(?:upgrade|downgrade|migrate|up|down|push|latest|deploy|rollback)\b", command.text):
        return []  # looking at the history changes nothing
    lines = [
        line.strip() for line in act.output.split("\n") if re.search(r"Applying|Running upgrade|migrat|Migrat", line)
    ][:3]
    return [
        Deed(
            "migrate",
            f"Run migrations: {clip(command.text, 60)}",
            f"Ran {code(command.text)}" + (f": {'; '.join(lines)}" if lines else ""),
            act,
        )
    ]


def _serve(command: Command, act: Act) -> list[Deed]:
    where = _LOCAL.search(act.output)
    if where is None and not command.background and act.input.get("run_in_background") is not True:
        return []
    at = f" at {where.group(0)}" if where else ""
    return [Deed("serve", f"Start {clip(command.text, 60)}{at}", f"Started {code(command.text)}{at}", act)]


def _version(command: Command, act: Act) -> list[Deed]:
    line = next((line.strip() for line in act.output.split("\n") if re.search(r"\d+\.\d+", line)), "")
    if not line or len(line) > 100 or act.output.count("\n") > 12:
        return []
    return [Deed("version", f"{command.words[0]}: {line}", f"{code(command.words[0])} is version {code(line)}", act)]


def _files(command: Command, act: Act) -> list[Deed]:
    """Deletions and moves of the project's own files."""
    words = list(command.words[1:] if command.words[0] == "git" else command.words)
    if words[:1] not in (["rm"], ["mv"]):
        return []
    paths = [act.relative(word) for word in words[1:] if not word.startswith("-")]
    kept = tuple(path for path in paths if not _SCRATCH.search(path) and ("." in path or "/" in path))
    if words[0] == "rm" and kept:
        return [Deed("delete", f"Delete {joined(kept, 3)}", f"Deleted {joined(map(code, kept), 5)}", act, kept)]
    if words[0] == "mv" and len(kept) == len(paths) >= 2:
        return [
            Deed(
                "move",
                f"Move {joined(kept[:-1], 2)} to {kept[-1]}",
                f"Moved {joined(map(code, kept[:-1]))} to {code(kept[-1])}",
                act,
                kept,
            )
        ]
    return []


_READERS = {
    "git": _git,
    "pr": _pull_request,
    "install": _install,
    "migrate": _migrate,
    "serve": _serve,
    "version": _version,
}
