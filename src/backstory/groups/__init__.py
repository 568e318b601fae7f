"""Groups: isolated owners of sessions. Each has its own pointer, history, archives, instructions and memory.

The names here are the Python API; see docs/groups.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backstory.groups.api import GroupAnswer, close, events, run, send

__all__ = ["GroupAnswer", "close", "events", "run", "send"]


def __getattr__(name: str) -> Any:
    """Import the API when it is used: the store and the worker need other parts of this package only."""
    if name in __all__:
        from backstory.groups import api

        return getattr(api, name)
    raise AttributeError(name)
