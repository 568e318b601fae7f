"""queue: what waits to be observed, and what was set aside."""

from __future__ import annotations

import argparse
from typing import Any

from backstory.cli import show
from backstory.cli.worker import connect


def add(commands: Any) -> None:
    text = "Show what waits to be observed; try what was set aside again, or drop it."
    top = commands.add_parser("queue", help="see what waits, retry or drop what failed", description=text)
    actions = top.add_subparsers(metavar="ACTION")
    for listing in (top, actions.add_parser("list", help="what waits, is at work, or was set aside")):
        listing.add_argument("--dead", action="store_true", help="only what was set aside")
        listing.add_argument("--json", action="store_true", help="print JSON")
        listing.set_defaults(run=list_queue)
    for name, run, text in (
        ("retry", retry, "try again what was set aside"),
        ("drop", drop, "drop what was set aside, and its payload"),
    ):
        action = actions.add_parser(name, help=text)
        which = action.add_mutually_exclusive_group(required=True)
        which.add_argument("id", nargs="?", type=int, metavar="ID", help="an event's number")
        which.add_argument("--all", action="store_true", help="all that were set aside")
        action.set_defaults(run=run)


def list_queue(options: argparse.Namespace) -> int:
    page = connect().get("/api/queue", status="dead" if options.dead else "", limit=200)
    if options.json:
        show.as_json(page)
        return 0
    for row in page["items"]:
        what = row["tool_name"] or row["kind"]
        failed = f", {row['attempts']} tries: {row['last_error']}" if row["last_error"] else ""
        show.line(f"{row['id']:>6} {show.when(row['created_at'])} {row['project']} {row['status']} {what}{failed}")
    if not page["items"]:
        print("Nothing waits.")
    elif page["next"]:
        print("… and more.")
    return 0


def retry(options: argparse.Namespace) -> int:
    changed = connect().post("/api/queue/retry", {"id": options.id or 0})["changed"]
    print(f"{changed} will be tried again.")
    return 0


def drop(options: argparse.Namespace) -> int:
    changed = connect().post("/api/queue/drop", {"id": options.id or 0})["changed"]
    print(f"{changed} dropped.")
    return 0
