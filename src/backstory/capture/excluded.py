"""Whether a project is one that the user has excluded, by its name, its key or its directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from glob import has_magic, iglob
from itertools import islice

from backstory.project import Project

#: Directories that a pattern stands for and that are looked at for links.
MATCHES = 1000


def is_excluded(patterns: Iterable[str], cwd: str, where: Project) -> bool:
    """Whether a pattern names the project, or the directory or one above it, however either of them is spelled."""
    places = _spellings(cwd) | _spellings(where.key)  # a worktree has its repository's key
    names = [name for name in (where.name, where.key, cwd) if name]
    for pattern in patterns:
        given = os.path.expanduser(pattern)  # noqa: PTH111 - a Path would drop a slash at the end
        if any(fnmatchcase(name, given) for name in names):
            return True
        if any(_is_inside(place, spelled) for spelled in _meant(given) for place in places):
            return True
    return False


def _is_inside(place: str, pattern: str) -> bool:
    """Whether a directory is the one that is named, by its letters or by `*` and `?`, or inside of it."""
    above = pattern.rstrip("/") + "/"
    return place == pattern or place.startswith(above) or fnmatchcase(place, pattern) or fnmatchcase(place, above + "*")


def _spellings(path: str) -> set[str]:
    """An absolute path as it is given, without `..`, and with its links resolved."""
    is_path = path.startswith("/") and "\0" not in path
    return {path, os.path.normpath(path), os.path.realpath(path)} if is_path else set()


def _meant(pattern: str) -> set[str]:
    """A pattern for directories, and the directories that it stands for where links are among them."""
    found = _spellings(pattern)
    if found and has_magic(pattern):
        for match in islice(iglob(pattern), MATCHES):  # noqa: PTH207 - the pattern is absolute
            found |= _spellings(match)
    return found
