"""What the page of the viewer asks the worker for, and the commands that do the same."""

from __future__ import annotations

import re

#: A route as the OpenAPI document has it -> the commands that do the same. Without one, it only keeps the page going.
COMMANDS: dict[str, tuple[str, ...]] = {
    "GET /": (),
    "GET /assets/{name}": (),
    "POST /open": ("open",),
    "GET /api/stream": (),
    "GET /api/health": ("status",),
    "GET /api/feed": ("timeline", "search"),
    "GET /api/feed/choices": (),
    "GET /api/search": ("search",),
    "GET /api/timeline": ("timeline",),
    "GET /api/context": ("context",),
    "GET /api/observations": ("sessions show",),
    "GET /api/observations/{id}": ("show",),
    "PATCH /api/observations/{id}": ("edit", "pin", "supersede"),
    "GET /api/observations/{id}/sources": ("show",),
    "POST /api/observations/merge": ("merge",),
    "POST /api/hide": ("hide",),
    "GET /api/hidden": ("hide",),
    "POST /api/forget": ("forget", "sessions delete"),
    "GET /api/summaries/{id}": ("sessions show",),
    "GET /api/prompts/{id}": ("sessions show",),
    "GET /api/events/{id}": ("show",),
    "GET /api/sessions": ("sessions list",),
    "GET /api/sessions/search": ("sessions search",),
    "GET /api/sessions/{id}": ("sessions show",),
    "PATCH /api/sessions/{id}": ("sessions rename", "sessions tag"),
    "GET /api/sessions/{id}/rounds": ("sessions show",),
    "GET /api/sessions/{id}/export": ("sessions export",),
    "GET /api/groups": ("groups list",),
    "POST /api/groups": ("groups create",),
    "GET /api/groups/{group}": ("groups show", "groups history"),
    "GET /api/groups/{group}/archives/{id}": ("groups show",),
    "POST /api/groups/{group}/archive": ("groups archive",),
    "POST /api/groups/{group}/clear": ("groups clear",),
    "POST /api/groups/{group}/resume": ("groups resume",),
    "GET /api/stats": ("stats",),
    "GET /api/stats/days": ("stats",),
    "GET /api/stats/files": ("stats",),
    "GET /api/stats/queue": ("stats",),
    "GET /api/settings": ("config list",),
    "PATCH /api/settings": ("config set", "config unset"),
    "POST /api/settings/test": ("config test",),
    "GET /api/queue": ("queue list",),
    "POST /api/queue/retry": ("queue retry",),
    "POST /api/queue/drop": ("queue drop",),
    "GET /api/doctor": ("doctor",),
}
_PATTERNS = [re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route))) for route in COMMANDS]


def is_known(method: str, path: str) -> bool:
    """Return whether a request is in the table."""
    return any(pattern.fullmatch(f"{method} {path}") for pattern in _PATTERNS)
