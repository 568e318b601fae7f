"""Finds the git repository of a directory and reads its files. Runs nothing, and trusts nothing that it reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from backstory.files import read_regular

#: Bytes of HEAD, of a `.git` file and of `commondir`: each holds one path or one reference.
LINE = 8 << 10
#: Bytes of a configuration; what lies behind them is not read.
CONFIG = 1 << 20
#: Bytes of a branch's name; git can store none that is longer than a file's name.
BRANCH = 255
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]', re.ASCII)
_VALUE = re.compile(r"\s*([a-z][\w-]*)\s*=\s*(.*)", re.ASCII | re.IGNORECASE)
_NO_REF = re.compile(r"[ ~^:?*\[\\]|\.\.|@\{|^[-/.]|/\.|//|[/.]$|\.lock$")


@dataclass(frozen=True, slots=True)
class Repository:
    """Where a working tree and its git directories are."""

    root: Path  #: of the working tree
    git_dir: Path  #: HEAD and index; each worktree has its own
    common_dir: Path  #: configuration and references; worktrees share it

    def branch(self) -> str | None:
        """The branch that is checked out; None if there is none, or if its name is none that git would accept."""
        try:
            head = _line(self.git_dir / "HEAD")
        except OSError:
            return None
        name = head.removeprefix("ref: refs/heads/")
        if name in (head, "") or not name.isprintable() or len(name.encode()) > BRANCH or _NO_REF.search(name):
            return None
        return name

    def config(self) -> dict[tuple[str, str, str], str]:
        """(section, subsection, key) -> value, the first of each. No other file is included, whatever it says."""
        try:
            text = read_regular(self.common_dir / "config", CONFIG).decode("utf-8", "replace")
        except OSError:
            return {}
        found: dict[tuple[str, str, str], str] = {}
        section = ("", "")
        for line in text.split("\n"):
            if heading := _SECTION.match(line):
                section = (heading[1].lower(), heading[2] or "")
            if value := _VALUE.match(line, heading.end() if heading else 0):
                found.setdefault((section[0], section[1], value[1].lower()), _unquoted(value[2]))
        return found


def locate(cwd: str) -> Repository | None:
    """The repository that a directory is in. A bare repository inside a working tree is a directory like others."""
    here = Path(cwd)
    for root in (here, *here.parents):
        try:
            if found := _at(root):
                return found
        except (OSError, ValueError, RuntimeError):
            continue  # RuntimeError: how Python 3.11 tells of links that lead in a circle
    return None


def _at(root: Path) -> Repository | None:
    dot = root / ".git"
    if dot.is_dir():
        git_dir = common_dir = dot
    else:
        # A worktree or a submodule: the file names the real directory, and a worktree's names the shared one.
        named = _line(dot).partition("gitdir:")[2].strip()
        if not named:
            return None
        git_dir = (root / named).resolve()
        try:
            common_dir = (git_dir / _line(git_dir / "commondir")).resolve()
        except FileNotFoundError:
            common_dir = git_dir
    _line(common_dir / "HEAD")  # half a repository is none
    return Repository(root, git_dir, common_dir)


def _line(path: Path) -> str:
    """The one line of a small file."""
    return read_regular(path, LINE).decode("utf-8", "replace").strip()


def _unquoted(value: str) -> str:
    """A value as git reads it, but for escapes: without its quotes, and without a comment behind it."""
    if value.startswith('"'):
        return value[1:].partition('"')[0]
    return re.split(r"[#;]", value, maxsplit=1)[0].strip()
