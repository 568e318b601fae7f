"""Finds the git repository of a directory and reads its files. Never runs git, and treats the files as untrusted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from backstory.files import read_regular

#: Maximum bytes read of HEAD, of a `.git` file and of `commondir`. Each holds one path or one reference.
MAX_LINE_BYTES = 8 << 10
#: Maximum bytes read of a configuration file.
MAX_CONFIG_BYTES = 1 << 20
#: Maximum bytes of a branch name. git stores a branch as a file, so the limit is that of file names.
MAX_BRANCH_BYTES = 255
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]', re.ASCII)
_VALUE = re.compile(r"\s*([a-z][\w-]*)\s*=\s*(.*)", re.ASCII | re.IGNORECASE)
_INVALID_REF = re.compile(r"[ ~^:?*\[\\]|\.\.|@\{|^[-/.]|/\.|//|[/.]$|\.lock$")


@dataclass(frozen=True, slots=True)
class Repository:
    """The paths of a working tree and of its git directories."""

    root: Path  #: the top directory of the working tree
    git_dir: Path  #: holds HEAD and index; each worktree has its own
    common_dir: Path  #: holds configuration and references; shared by all worktrees

    def branch(self) -> str | None:
        """Return the branch that is checked out; None if there is none or if git would not accept its name."""
        try:
            head = _line(self.git_dir / "HEAD")
        except OSError:
            return None
        name = head.removeprefix("ref: refs/heads/")
        is_valid = name.isprintable() and len(name.encode()) <= MAX_BRANCH_BYTES and not _INVALID_REF.search(name)
        return name if is_valid and name not in (head, "") else None

    def config(self) -> dict[tuple[str, str, str], str]:
        """Map (section, subsection, key) to the first value of each. `include` directives are ignored."""
        try:
            text = read_regular(self.common_dir / "config", MAX_CONFIG_BYTES).decode("utf-8", "replace")
        except OSError:
            return {}
        values: dict[tuple[str, str, str], str] = {}
        section = ("", "")
        for line in text.split("\n"):
            if heading := _SECTION.match(line):
                section = (heading[1].lower(), heading[2] or "")
            if value := _VALUE.match(line, heading.end() if heading else 0):
                values.setdefault((section[0], section[1], value[1].lower()), _unquoted(value[2]))
        return values


def locate(cwd: str) -> Repository | None:
    """Return the repository that contains a directory. Bare repositories inside a working tree are ignored."""
    here = Path(cwd)
    for root in (here, *here.parents):
        try:
            if repository := _at(root):
                return repository
        except (OSError, ValueError, RuntimeError):
            continue  # RuntimeError: Python 3.11 raises it for a loop of symbolic links
    return None


def _at(root: Path) -> Repository | None:
    dot = root / ".git"
    if dot.is_dir():
        git_dir = common_dir = dot
    else:
        # In a worktree or a submodule `.git` is a file that names the real directory. A worktree's `commondir` names
        # the shared one.
        named = _line(dot).partition("gitdir:")[2].strip()
        if not named:
            return None
        git_dir = (root / named).resolve()
        try:
            common_dir = (git_dir / _line(git_dir / "commondir")).resolve()
        except FileNotFoundError:
            common_dir = git_dir
    _line(common_dir / "HEAD")  # raises OSError if this is not a complete repository
    return Repository(root, git_dir, common_dir)


def _line(path: Path) -> str:
    """Read a file that consists of one line."""
    return read_regular(path, MAX_LINE_BYTES).decode("utf-8", "replace").strip()


def _unquoted(value: str) -> str:
    """Remove quotes and a trailing comment from a value. Escapes are not decoded."""
    if value.startswith('"'):
        return value[1:].partition('"')[0]
    return re.split(r"[#;]", value, maxsplit=1)[0].strip()
