"""Determines the project of a directory: its name for display and its unique key. Reads git's files, never runs git."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from backstory import gate
from backstory.repository import Repository, locate

#: Maximum characters of a remote's URL. Longer ones are truncated.
MAX_URL_CHARS = 2048
#: The sessions of a group are a project of their own. Its name and its key are this and the name of the group.
GROUP_PREFIX = "group:"


@dataclass(frozen=True, slots=True)
class Project:
    """A repository, or a directory outside of any. The constructor removes private text and secrets."""

    name: str
    key: str  #: the remote's URL, else the path of the root: two repositories named `api` differ
    branch: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", gate.text(self.name))
        object.__setattr__(self, "key", gate.identifier(self.key))
        object.__setattr__(self, "branch", self.branch and gate.text(self.branch))


def of_group(group: str) -> Project:
    """Return the project of a group's sessions."""
    return Project(GROUP_PREFIX + group, GROUP_PREFIX + group)


def group_of(key: str) -> str | None:
    """Return the group that a project belongs to, by its key."""
    return key.removeprefix(GROUP_PREFIX) if key.startswith(GROUP_PREFIX) else None


def find(cwd: str) -> Project:
    """Return the project of a working directory. All worktrees of a repository are one project."""
    if repository := locate(cwd):
        found = _of(repository)
    else:
        here = _home_of(Path(cwd))
        found = Project(name=here.name or str(here), key=str(here))
    # No directory passes for a group by its name.
    return replace(found, name=f"./{found.name}") if found.name.startswith(GROUP_PREFIX) else found


def _home_of(here: Path) -> Path:
    """Guess the repository of a worktree from its path alone, for a directory that does not exist on this machine."""
    for index, part in enumerate(here.parts):
        if part in (".worktrees", "worktrees") and index > 1:
            home = Path(*here.parts[:index])
            return home.parent if home.name == ".claude" else home
    return here


def _of(repository: Repository) -> Project:
    home, common = repository.root, repository.common_dir
    if common != repository.git_dir:
        home = common.parent if common.name == ".git" else common
    name = home.name.removesuffix(".git") or str(home)
    return Project(name=name, key=_remote(repository) or str(home), branch=repository.branch())


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
