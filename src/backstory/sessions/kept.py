"""Reads kept transcripts from the worker, and writes them back to where the agent looks for them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from backstory import settings, transcript_gate
from backstory.agents import AGENTS
from backstory.client import Client
from backstory.errors import BackstoryError

TRANSCRIPTS = "/api/transcripts"
ENTRIES = "/api/transcripts/entries"


def listed(client: Client, **filters: Any) -> Iterator[dict[str, Any]]:
    """Return kept transcripts, the first that was kept first. The filters are those of the route."""
    return client.items(TRANSCRIPTS, **filters)


def entries(client: Client, key: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the entries of a kept transcript in their order. Reading them fails with status 404 if it is not kept."""
    return client.items(ENTRIES, **key)


def size_of(entry: Mapping[str, Any]) -> int:
    """Return the bytes of an entry in a request."""
    return len(json.dumps(entry))


def restore_transcript(session: str | int, *, cwd: str = "", client: Client | None = None) -> Path | None:
    """Write a kept transcript back to where the agent looks for it, with those of its subagents.

    `session` is our id, the agent's id or the beginning of it. The agent will be started in `cwd`; by default that is
    the directory of the session. Return the file; None if the transcript is not kept. A file that exists and is not
    empty is left as it is.
    """
    client = client or Client(settings.load().paths.socket)
    row = _session(client, str(session))
    if row is None:
        return None
    agent = AGENTS.get(row["agent"])
    keeping = agent.transcripts.keeping if agent else None
    if agent is None or keeping is None:
        return None
    file = _place(row, cwd)
    if file is None or (file.exists() and file.stat().st_size):
        return file
    about = {"agent": row["agent"], "session_id": row["content_session_id"]}
    # A session can be kept under several keys of its repository. The one that was added to last is the longest.
    found = sorted(listed(client, **about), key=lambda each: str(each["changed_at"]))
    parts = {each["subpath"]: each for each in found}
    if "" not in parts:
        return None
    # Its own transcript comes last: once it is there, the session can be resumed.
    for subpath, each in sorted(parts.items(), reverse=True):
        key = {**about, "project_key": each["project_key"], "subpath": subpath}
        try:
            part = keeping.part(file, subpath) if subpath else file
        except ValueError:
            continue  # no name that the agent gives, perhaps of another machine
        keeping.write(part, map(transcript_gate.dumped, entries(client, key)))
    return file


def _session(client: Client, name: str) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = client.get(f"/api/sessions/{quote(name, safe='')}")
    except BackstoryError as error:
        if error.status == 404:
            return None
        raise
    return row


def _place(row: Mapping[str, Any], cwd: str) -> Path | None:
    """Return where the agent looks for the transcript of a session; None if it gives no such ids."""
    agent = AGENTS[row["agent"]]
    roots = agent.transcripts.roots(Path.home(), settings.environment())
    known = Path(row["transcript_path"] or "")
    is_inside = ".." not in known.parts and any(known.is_relative_to(root) for root in roots)
    if is_inside and (not cwd or cwd == row["cwd"]):
        return known
    if agent.resuming is None or not agent.resuming.command(row["content_session_id"]):
        return None
    return agent.resuming.place(roots[0], cwd or row["cwd"], row["content_session_id"])
