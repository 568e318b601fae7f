"""How sessions are printed: as one line, or with what is needed to recognise one."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import quote

from backstory.cli import show
from backstory.text import cut, one_line, width

Row = dict[str, Any]
#: Columns of the name of a project, at most.
MAX_PROJECT = 9
#: Characters of what was asked, of how it ended, and of the text that was found.
MAX_TEXT = 170
#: label -> the field of `ended`
_ENDED = {"Done": "done", "Open": "open", "Note": "note"}


def route(name: str, rest: str = "") -> str:
    """Return the route of a session. The name may hold anything that a user types."""
    return f"/api/sessions/{quote(name, safe='', errors='replace')}{rest}"


def mark(row: Row) -> str:
    """Return the id to pass to the next command."""
    return f"S{row['id']}"


def line(row: Row) -> str:
    """Return a session as a line of a list."""
    state = "" if row["status"] == "completed" else f" ({row['status']})"
    return f"{show.when(row['last_event_at'])} {row['project']}{state}: {show.titled(row)}{_marks(row)}"


def put(rows: list[Row]) -> None:
    """Print sessions as a list, each with its snippet if it was found by one: in columns on a terminal."""
    ids = max((len(f"S{row['id']}") for row in rows), default=0)
    names = min(max((width(row["project"]) for row in rows), default=0), MAX_PROJECT)
    for row in rows:
        if sys.stdout.isatty():
            active = row["status"] == "active"
            show.line(
                show.Styled(f"{mark(row):>{ids}}", show.CYAN),
                show.Styled(f" {show.age(row['last_event_at']):>3} {show.padded(row['project'], names)} ", show.DIM),
                show.Styled("active " if active else "", show.GREEN),
                f"{show.titled(row)}{_marks(row)}",
            )
        else:
            show.line(f"{mark(row):>5} {line(row)}")
        if row.get("snippet"):
            show.line(show.Styled(f"{'':{ids + 5}}{row['snippet']}", show.DIM))


def _marks(row: Row) -> str:
    tags = f" [{', '.join(row['tags'])}]" if row["tags"] else ""
    kind = {"fork": "fork of", "clear": "after"}.get(row["start_source"] or "", "follows")
    return tags + (f" ({kind} S{row['parent_id']})" if row["parent_id"] else "")


def place(row: Row) -> str:
    """Return when and where a session was."""
    return f"{show.when(row['last_event_at'])}, {row['project']}{branch(row)}"


def branch(row: Row) -> str:
    """Return the branch of a session. Outside of a repository the client reports `HEAD`."""
    return f", branch {row['git_branch']}" if row["git_branch"] not in (None, "", "HEAD") else ""


def used(usage: Row) -> str:
    """Return the tokens that a session used, its models, and what they cost."""
    cached = f" ({usage['cached_tokens']:,} from the cache)" if usage["cached_tokens"] else ""
    models = ", ".join(one["model"] for one in usage["models"])
    tokens = f"Tokens: {usage['input_tokens']:,} read{cached}, {usage['output_tokens']:,} written; {models}."
    return f"{tokens} Cost: {_cost(usage)}."


def _cost(usage: Row) -> str:
    without = usage["models_without_price"]
    if usage["cost_micros"] is None:
        return "unknown, because no price of the model is known" if without else "unknown"
    dollars = f"${usage['cost_micros'] / 1_000_000:,.2f}"
    if usage["cost_source"] == "agent":
        return f"{dollars}, as the agent counted it"
    rest = f", without {', '.join(without)}" if without else ""
    return f"about {dollars} at list prices{rest}"


def details(row: Row, indent: str) -> None:
    """Print what was asked in a session, how it ended, and what was found in it."""
    labelled("Asked", row["asked"][0] if row["asked"] else "(private)", indent)
    for text in row["asked"][1:]:
        labelled("Then", text, indent)
    for label, name in _ENDED.items():
        labelled(label, row["ended"][name], indent)
    if row.get("snippet") and not row.get("exact"):
        labelled("Found", row["snippet"], indent)


def labelled(label: str, text: str, indent: str) -> None:
    if text := cut(one_line(text), MAX_TEXT):
        show.paragraph(f"{label}: {text}", indent, "  ")
