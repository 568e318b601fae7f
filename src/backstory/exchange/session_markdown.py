"""Writes the conversation of a session as Markdown. Pure functions without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from backstory.text import local, one_line

Row = dict[str, Any]


def pieces(session: Row, turns: Iterable[Row], assistant: str) -> Iterator[str]:
    """Yield the parts of the text: a heading, a paragraph about the session, and one part for each turn.

    `session` and `turns` are rows as the API shows them. `assistant` is the name of the agent.
    """
    yield f"# {one_line(session['title'])}\n\n{_about(session)}\n\n---\n"
    for turn in turns:
        name = turn["speaker"] or ("User" if turn["role"] == "user" else assistant)
        text = (turn["text"] or "(private or deleted)").strip()
        yield f"\n**{one_line(name)}** ({local(turn['at'])}):\n\n{text}\n"


def _about(session: Row) -> str:
    parts = [f"Session {session['id']} of {session['project']}"]
    if session["git_branch"]:
        parts.append(f"branch {session['git_branch']}")
    parts.append(f"{local(session['created_at'])} to {local(session['last_event_at'])}")
    parts.append(f"{session['agent']} {session['content_session_id']}")
    tags = f" Tags: {', '.join(session['tags'])}." if session["tags"] else ""
    return f"{', '.join(parts)}.{tags}"
