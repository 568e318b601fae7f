"""sessions: lists sessions and shows one."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from backstory.cli import show
from backstory.cli.worker import connect
from backstory.errors import BackstoryError

#: label -> the field of a summary that it shows
LABELS = {"Done": "completed", "Learned": "learned", "Next": "next_steps", "Note": "notes"}


def add(commands: Any) -> None:
    top = commands.add_parser("sessions", help="list and show sessions", description="List and show sessions.")
    actions = top.add_subparsers(metavar="ACTION")
    for listing in (top, actions.add_parser("list", help="list sessions, newest first (the default)")):
        listing.add_argument("--project", default="", help="list only this project (name or key)")
        listing.add_argument("--limit", type=int, default=20, help="maximum number of sessions (default: 20)")
        listing.add_argument("--json", action="store_true", help="print JSON")
        listing.set_defaults(run=list_sessions)
    show_ = actions.add_parser("show", help="show one session: its prompts, summaries and observations")
    show_.add_argument("id", metavar="ID", help="the session's number, or the agent's id or a prefix of it")
    show_.add_argument("--turns", action="store_true", help="show every message instead")
    show_.add_argument("--json", action="store_true", help="print JSON")
    show_.set_defaults(run=show_session)


def list_sessions(options: argparse.Namespace) -> int:
    if not 1 <= options.limit <= 200:
        raise BackstoryError("--limit must be a number from 1 to 200.")
    page = connect().get("/api/sessions", project=options.project, limit=options.limit)
    if options.json:
        show.as_json(page)
        return 0
    for row in page["items"]:
        title = row["title"] or row["first_user_prompt"] or ("(private)" if row["prompt_counter"] else "(no prompt)")
        state = "" if row["status"] == "completed" else f" ({row['status']})"
        show.line(f"{row['id']:>4} {show.when(row['last_event_at'])} {row['project']}{state}: {title}")
    if not page["items"]:
        print("There are no sessions yet.")
    return 0


def show_session(options: argparse.Namespace) -> int:
    if not options.id.strip():
        raise BackstoryError("The session's id is empty.", "List sessions with `backstory sessions`.")
    if options.turns:
        return show_turns(options)
    row = connect().get(f"/api/sessions/{quote(options.id, safe='', errors='replace')}")
    if options.json:
        show.as_json(row)
        return 0
    print(f"Session {row['id']} of {row['project']} ({row['agent']} {row['content_session_id']})")
    branch = f", branch {row['git_branch']}" if row["git_branch"] else ""
    print(f"{row['status']}, {show.when(row['created_at'])} to {show.when(row['last_event_at'])}{branch}")
    summaries = {s["prompt_number"]: s for s in row["summaries"] if s["source"] == "stop"}
    for prompt in row["prompts"]:
        print()
        number = prompt["prompt_number"]
        show.block(f"{number}. Asked", "(private)" if prompt["is_private"] else prompt["prompt"])
        if summary := summaries.get(number):
            for label, name in LABELS.items():
                show.block(label, summary[name])
        for observation in reversed(row["observations"]):
            if observation["prompt_number"] == number:
                show.line(f"  #{observation['id']} {observation['type']}: {observation['title']}")
    return 0


def show_turns(options: argparse.Namespace) -> int:
    """Print every message of the session, page by page."""
    client, route = connect(), f"/api/sessions/{quote(options.id, safe='', errors='replace')}/turns"
    turns: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = client.get(route, limit=200, cursor=cursor)
        if options.json:
            turns += page["items"]
        else:
            for turn in page["items"]:
                label = f"{turn['number']}. {turn['speaker'] or turn['role']}, {show.when(turn['at'])}"
                show.block(label, turn["text"] or "(private or forgotten)")
        if not (cursor := page["next"]):
            break
    if options.json:
        show.as_json({"items": turns})
    return 0
