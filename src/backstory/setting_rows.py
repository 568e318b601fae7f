"""Settings as rows, for commands and for the page: value, default, where it comes from. Secrets have no value here."""

from __future__ import annotations

import dataclasses
from typing import Any

from backstory import settings
from backstory.settings import NAMES, Settings

#: Settings that only `backstory config set` changes: they name programs and directories that agents get, or decide who
#: may talk to the worker.
ONLY_BY_COMMAND = frozenset({"auth", "host", "claude_path", "group_sandbox", "group_image", "main_project"})
_KINDS = {tuple: "list", int: "integer", float: "number", str: "text"}


def rows(started: Settings | None = None) -> list[dict[str, Any]]:
    """Return every setting. `started` are the settings that the worker started with."""
    chosen, sources, default = settings.load(), settings.sources(), Settings()
    fields = {field.name: field for field in dataclasses.fields(Settings)}
    listed = []
    for name in NAMES:
        value, marks = getattr(chosen, name), fields[name].metadata
        is_secret, source = bool(marks["secret"]), sources.get(name, "")
        if not source and value != getattr(default, name):
            source = "environment"  # of the vendor's own programs
        row = {
            "name": name,
            "value": None if is_secret else settings.shown(name, value),
            "default": None if is_secret else getattr(default, name),
            "description": marks["sentence"],
            "type": "choice" if marks["choices"] else _KINDS[type(getattr(default, name))],
            "choices": list(marks["choices"]),
            "least": marks["least"],
            "most": None if marks["most"] == float("inf") else marks["most"],
            "is_secret": is_secret,
            "is_set": bool(value),
            "is_changed": bool(source),
            "source": "default" if not source else "file" if source == "config.toml" else "environment",
            "needs_restart": not marks["at_once"],
            "is_pending": started is not None and not marks["at_once"] and value != getattr(started, name),
            "is_editable": name not in ONLY_BY_COMMAND,
        }
        listed.append(row)
    return listed
