"""Which project a directory belongs to: a name for people, a key for us. Reads git's files, runs nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Project:
    """A repository, or a directory that is none."""

    name: str
    key: str  #: the remote's address, else the root's path: two repositories called `api` stay apart
    branch: str | None = None


def find(cwd: str) -> Project:
    """The project of a working directory. Worktrees of one repository are one project."""
    here = Path(cwd)
    for root in (here, *here.parents):
        try:
            found = _at(root)
        except OSError:
            found = None
        if found:
            return found
    here = _home_of(here)
    return Project(name=here.name or str(here), key=str(here))


def _home_of(here: Path) -> Path:
    """Of a directory that is gone, such as one of another machine's: a worktree still belongs to its repository."""
    for at, part in enumerate(here.parts):
        if part in (".worktrees", "worktrees") and at > 1:
            home = Path(*here.parts[:at])
            return home.parent if home.name == ".claude" else home
    return here


def _at(root: Path) -> Project | None:
    dot = root / ".git"
    if dot.is_dir():
        private = common = dot
        home = root
    elif dot.is_file():
        # A worktree or a submodule: the file names the real directory, and a worktree's names the shared one.
        pointer = dot.read_text("utf-8", "replace").partition("gitdir:")[2].strip()
        private = (root / pointer).resolve()
        shared = private / "commondir"
        common = (private / shared.read_text("utf-8").strip()).resolve() if shared.is_file() else private
        home = root if common is private else common.parent if common.name == ".git" else common
    else:
        return None
    if not (common / "HEAD").is_file():
        return None
    name = home.name.removesuffix(".git") or str(home)
    return Project(name=name, key=_remote(common) or str(home), branch=_branch(private))


def _branch(directory: Path) -> str | None:
    head = (directory / "HEAD").read_text("utf-8", "replace").strip()
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else None


def _remote(common: Path) -> str | None:
    try:
        text = (common / "config").read_text("utf-8", "replace")
    except OSError:
        return None
    remotes: dict[str, str] = {}
    section = None
    for line in text.splitlines():
        if heading := re.match(r'\s*\[\s*remote\s+"([^"]*)"\s*\]', line):
            section = heading[1]
        elif re.match(r"\s*\[", line):
            section = None
        elif section is not None and (url := re.match(r"\s*url\s*=\s*(\S+)", line)):
            remotes.setdefault(section, url[1])
    address = remotes.get("origin") or next(iter(remotes.values()), None)
    return normalize(address) if address else None


def normalize(address: str) -> str:
    """One form for every way to write a remote: no scheme, no user, no password, no `.git`."""
    address = address.strip()
    if scp := re.match(r"^(?:[^@/\s]+@)?([^:/\s]+):(?!//)(.+)$", address):
        host, path = scp[1], scp[2]
    elif url := re.match(r"^[a-zA-Z][\w+.-]*://(?:[^@/]*@)?([^/:]*)(?::\d+)?/(.*)$", address):
        host, path = url[1], url[2]
    else:
        return address.removesuffix("/").removesuffix(".git")
    path = path.strip("/").removesuffix(".git")
    return f"{host.lower()}/{path}" if host else f"/{path}"
