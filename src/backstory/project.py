"""Determines the project of a directory: its name for display and its unique key. Reads git's files, never runs git."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from backstory import gate
from backstory.paths import expanded
from backstory.repository import Repository, locate

#: Maximum characters of a remote's URL. Longer ones are truncated.
MAX_URL_CHARS = 2048
#: Folders in which worktrees of a repository are kept.
WORKTREES = (".worktrees", "worktrees")
#: The sessions of a group are a project of their own. Its name and its key are this and the name of the group.
GROUP_PREFIX = "group:"


@dataclass(frozen=True, slots=True)
class Project:
    """A repository, or a directory outside of any. The constructor removes private text and secrets."""

    name: str
    key: str  #: the remote's URL, else the path of the root: two repositories named `api` differ
    branch: str | None = None
    root: str = ""  #: the top directory of the working tree; empty outside of any

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", gate.text(self.name))
        object.__setattr__(self, "key", gate.identifier(self.key))
        object.__setattr__(self, "branch", self.branch and gate.text(self.branch))
        object.__setattr__(self, "root", gate.text(self.root))


def of_group(group: str) -> Project:
    """Return the project of a group's sessions."""
    return Project(GROUP_PREFIX + group, GROUP_PREFIX + group)


def group_of(key: str) -> str | None:
    """Return the group that a project belongs to, by its key."""
    return key.removeprefix(GROUP_PREFIX) if key.startswith(GROUP_PREFIX) else None


def find(cwd: str) -> Project:
    """Return the project of a working directory. All worktrees of a repository are one project."""
    here = Path(cwd)
    if repository := locate(cwd):
        found, home = _of(repository), repository.root
    else:
        home = _home_of(here)
        found = Project(name=home.name or str(home), key=str(home))
    if tree := _gone_worktree(here, home):
        found = replace(found, root=str(tree))
    # No directory passes for a group by its name.
    return replace(found, name=f"./{found.name}") if found.name.startswith(GROUP_PREFIX) else found


def _gone_worktree(here: Path, home: Path) -> Path | None:
    """Return the worktree of a directory that does not exist, if its path tells: a folder of its repository."""
    parts = here.relative_to(home).parts if here.is_relative_to(home) else ()
    at = next((at for at, part in enumerate(parts[:-1]) if part in WORKTREES), None)
    tree = home.joinpath(*parts[: at + 2]) if at is not None else None
    return tree if tree and not os.path.lexists(tree) else None


def _home_of(here: Path) -> Path:
    """Guess the repository of a worktree from its path alone, for a directory that does not exist on this machine."""
    for index, part in enumerate(here.parts):
        if part in WORKTREES and index > 1:
            home = Path(*here.parts[:index])
            if home.name == ".claude":
                return home.parent
            # `~/.codex/worktrees/ID/NAME` is a folder of an agent. It does not say which repository this is.
            return here if home.name.startswith(".") else home
    return here


def _of(repository: Repository) -> Project:
    home, common = repository.root, repository.common_dir
    if common != repository.git_dir:
        # `.git`, or a bare repository beside its worktrees, such as `.bare`
        home = common.parent if common.name.startswith(".") else common
    name = home.name.removesuffix(".git") or str(home)
    branch, root = repository.branch(), str(repository.root)
    return Project(name=name, key=_remote(repository) or str(home), branch=branch, root=root)


def path_from_root(path: str, cwd: str) -> str:
    """Return the path of a file as it is stored: from the root of the repository. What names no file of the working
    directory, such as the end of a path, stays as it is."""
    if not path:
        return path
    full = Path(os.path.normpath(Path(cwd, expanded(path))))
    is_path = path.startswith(("/", "./", "../", "~/"))
    try:
        is_path = is_path or full.exists()
    except (OSError, ValueError):
        return path
    repository = locate(cwd) if cwd else None
    root = repository.root if repository else Path(cwd)
    return str(full.relative_to(root)) if is_path and full.is_relative_to(root) else path


def _remote(repository: Repository) -> str | None:
    """Return the URL of `origin`, else of the first remote that has one."""
    config = repository.config()
    addresses = [value for (section, _, key), value in config.items() if (section, key) == ("remote", "url")]
    address = config.get(("remote", "origin", "url")) or next(iter(addresses), "")
    return normalize(address) or None


def normalize(address: str) -> str:
    """Normalise the URL of a remote: remove scheme, user, password, port, query and `.git`."""
    address = "".join(filter(str.isprintable, address[:MAX_URL_CHARS])).strip()
    address = re.sub(r"^(?:[\w+.-]+::)+", "", address)  # transport helper, as in `ext::ssh …`
    address = re.sub(r"(?<=/)[^/:@]*:[^/]*@", "", address)  # user and password, after any number of slashes
    if scheme := re.match(r"[a-zA-Z][\w+.-]*://", address):
        host, _, path = _without_user_of_url(address[scheme.end() :]).partition("/")
        host = re.sub(r":\d*$", "", host)
    elif re.match(r"[^/.~][^/]*[:@]", address):
        match = re.match(r"(\[[^]]*\]|[^:/]*)[:/]?(.*)", _without_user_of_scp(address))
        host, path = match.groups() if match else ("", "")
    else:
        return address.removesuffix("/").removesuffix(".git")
    host, path = (re.split(r"[?#]", part, maxsplit=1)[0] for part in (host, path))
    path = path.strip("/").removesuffix(".git")
    return f"{host.lower()}/{path}" if path else host.lower()


def _without_user_of_url(text: str) -> str:
    """Return `host/path` of `user:password@host/path`. Both password and path may contain `@`."""
    head = text.partition("/")[0]
    if "@" in head:
        return text[head.rindex("@") + 1 :]
    if re.search(r":(?!\d{0,5}$)", head):  # not a port, so this is a password that contains a slash
        _, at, host = text.rpartition("@")
        return host if at else head.partition(":")[0]
    return text


def _without_user_of_scp(text: str) -> str:
    """Return `host:path` of `user:password@host:path`."""
    head = text.partition("/")[0]
    name = head.partition(":")[0]
    if ":" in head.partition("@")[0] and "@" in head:
        return text[head.rindex("@") + 1 :]
    if "@" in name:
        return text[name.rindex("@") + 1 :]
    last = text.rpartition("@")[2]
    return last if ":" in last else text
