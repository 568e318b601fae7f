"""Which project a directory belongs to: a name for people, a key for us. Reads git's files, runs nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from backstory import gate
from backstory.repository import Repository, locate

#: Characters of a remote's address; a longer one is cut.
ADDRESS = 2048


@dataclass(frozen=True, slots=True)
class Project:
    """A repository, or a directory that is none. Private text and secrets are removed when it is made."""

    name: str
    key: str  #: the remote's address, else the root's path: two repositories called `api` stay apart
    branch: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", gate.text(self.name))
        object.__setattr__(self, "key", gate.identifier(self.key))
        object.__setattr__(self, "branch", self.branch and gate.text(self.branch))


def find(cwd: str) -> Project:
    """The project of a working directory. Worktrees of one repository are one project."""
    if repository := locate(cwd):
        return _of(repository)
    here = _home_of(Path(cwd))
    return Project(name=here.name or str(here), key=str(here))


def _home_of(here: Path) -> Path:
    """Of a directory that is gone, such as one of another machine's: a worktree still belongs to its repository."""
    for at, part in enumerate(here.parts):
        if part in (".worktrees", "worktrees") and at > 1:
            home = Path(*here.parts[:at])
            return home.parent if home.name == ".claude" else home
    return here


def _of(repository: Repository) -> Project:
    home, common = repository.root, repository.common_dir
    if common != repository.git_dir:
        home = common.parent if common.name == ".git" else common
    name = home.name.removesuffix(".git") or str(home)
    return Project(name=name, key=_remote(repository) or str(home), branch=repository.branch())


def _remote(repository: Repository) -> str | None:
    """The address of `origin`, else of the first remote that has one."""
    config = repository.config()
    addresses = [value for (section, _, key), value in config.items() if (section, key) == ("remote", "url")]
    address = config.get(("remote", "origin", "url")) or next(iter(addresses), "")
    return normalize(address) or None


def normalize(address: str) -> str:
    """One form for every way to write a remote: no scheme, no user, no password, no query, no `.git`."""
    address = "".join(filter(str.isprintable, address[:ADDRESS])).strip()
    address = re.sub(r"^(?:[\w+.-]+::)+", "", address)  # git's way to name the program that fetches
    address = re.sub(r"(?<=/)[^/:@]*:[^/]*@", "", address)  # wherever it stands, however many slashes are before it
    if scheme := re.match(r"[a-zA-Z][\w+.-]*://", address):
        host, _, path = _without_user_of_url(address[scheme.end() :]).partition("/")
        host = re.sub(r":\d*$", "", host)
    elif re.match(r"[^/.~][^/]*[:@]", address):
        found = re.match(r"(\[[^]]*\]|[^:/]*)[:/]?(.*)", _without_user_of_scp(address))
        host, path = found.groups() if found else ("", "")
    else:
        return address.removesuffix("/").removesuffix(".git")
    host, path = (re.split(r"[?#]", part, maxsplit=1)[0] for part in (host, path))
    path = path.strip("/").removesuffix(".git")
    return f"{host.lower()}/{path}" if path else host.lower()


def _without_user_of_url(text: str) -> str:
    """`user:password@host/path` from the host on. Both passwords and paths may hold `@`."""
    head = text.partition("/")[0]
    if "@" in head:
        return text[head.rindex("@") + 1 :]
    if re.search(r":(?!\d{0,5}$)", head):  # what follows is no port, so it begins a password with a slash in it
        _, at, host = text.rpartition("@")
        return host if at else head.partition(":")[0]
    return text


def _without_user_of_scp(text: str) -> str:
    """`user:password@host:path` from the host on."""
    head = text.partition("/")[0]
    name = head.partition(":")[0]
    if ":" in head.partition("@")[0] and "@" in head:
        return text[head.rindex("@") + 1 :]
    if "@" in name:
        return text[name.rindex("@") + 1 :]
    last = text.rpartition("@")[2]
    return last if ":" in last else text
