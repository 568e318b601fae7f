"""Tells whether the user has excluded a project by its name, its key or its directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from glob import has_magic, iglob
from itertools import islice

from backstory.project import Project

#: Maximum directories that match a pattern and are checked for links.
MAX_MATCHES = 1000


def is_excluded(patterns: Iterable[str], cwd: str, where: Project) -> bool:
    """Whether a pattern matches the project, the directory or a parent of it, with or without links resolved."""
    paths = _forms(cwd) | _forms(where.key)  # the key of a worktree is that of its repository
    names = [name for name in (where.name, where.key, cwd) if name]
    for pattern in patterns:
        expanded = os.path.expanduser(pattern)  # noqa: PTH111 - a Path would drop a slash at the end
        if any(fnmatchcase(name, expanded) for name in names):
            return True
        if any(_is_inside(path, form) for form in _pattern_forms(expanded) for path in paths):
            return True
    return False


def _is_inside(path: str, pattern: str) -> bool:
    """Whether a directory matches a pattern, or is inside one that does."""
    above = pattern.rstrip("/") + "/"
    return path == pattern or path.startswith(above) or fnmatchcase(path, pattern) or fnmatchcase(path, above + "*")


def _forms(path: str) -> set[str]:
    """An absolute path as it is, without `..`, and with its links resolved. Empty for other texts."""
    is_path = path.startswith("/") and "\0" not in path
    return {path, os.path.normpath(path), os.path.realpath(path)} if is_path else set()


def _pattern_forms(pattern: str) -> set[str]:
    """A pattern and, if it has wildcards, the directories that it matches. Each with its links resolved, too."""
    forms = _forms(pattern)
    if forms and has_magic(pattern):
        for match in islice(iglob(pattern), MAX_MATCHES):  # noqa: PTH207 - the pattern is absolute
            forms |= _forms(match)
    return forms
