"""To-dos: what the agent had set itself to do and had not done when the round ended."""

from __future__ import annotations

from collections.abc import Iterable

from backstory.model import Event
from backstory.observe.offline.acts import mapping


def unfinished(events: Iterable[Event]) -> list[str]:
    """The items still open: of the last list that was written, or of the tasks created one by one."""
    items: dict[str, str] = {}
    for event in events:
        payload = mapping(event.payload)
        given, response = mapping(payload.get("tool_input")), mapping(payload.get("tool_response"))
        if event.kind != "tool":
            continue
        if event.tool_name == "TodoWrite" and isinstance(todos := given.get("todos"), list):
            items = {str(n): _open_text(mapping(todo)) for n, todo in enumerate(todos[:50])}
        elif event.tool_name == "TaskCreate":
            task = mapping(response.get("task"))
            items[str(task.get("id"))] = _text(task.get("subject") or given.get("subject"))
        elif event.tool_name == "TaskUpdate" and given.get("status") in ("completed", "deleted", "cancelled"):
            items.pop(str(given.get("taskId")), None)
    return [item for item in items.values() if item]


def _open_text(todo: object) -> str:
    item = mapping(todo)
    return "" if item.get("status") in ("completed", "cancelled") else _text(item.get("content"))


def _text(value: object) -> str:
    return value[:300] if isinstance(value, str) else ""
