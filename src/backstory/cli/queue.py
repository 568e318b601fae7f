"""queue: lists events that are not observed yet; retries or drops events that were set aside."""

from __future__ import annotations

import argparse
from typing import Any

from backstory.cli import show
from backstory.cli.worker import connect


def add(commands: Any) -> None:
    text = "List events that are not observed yet. An event that fails five times is set aside: retry it or drop it."
    top = commands.add_parser("queue", help="list, retry or drop events that are not observed yet", description=text)
    actions = top.add_subparsers(metavar="ACTION")
    for listing in (top, actions.add_parser("list", help="list events that wait or were set aside (the default)")):
        listing.add_argument("--dead", action="store_true", help="list only events that were set aside")
        listing.runs_with_json(list_queue)
    for name, did, text in (
        ("retry", "will be retried", "retry events that were set aside"),
        ("drop", "dropped", "drop events that were set aside, with their payloads"),
    ):
        action = actions.add_parser(name, help=text)
        which = action.add_mutually_exclusive_group(required=True)
        which.add_argument("id", nargs="?", type=int, metavar="ID", help="an event's id, as printed by `queue list`")
        which.add_argument("--all", action="store_true", help="all events that were set aside")
        action.runs_with_json(change)
        action.set_defaults(route=f"/api/queue/{name}", did=did)


def list_queue(options: argparse.Namespace) -> None:
    page = connect().get("/api/queue", status="dead" if options.dead else "", limit=200)
    if show.printed_json(options, page):
        return
    for row in page["items"]:
        name = row["tool_name"] or row["kind"]
        error = f", {row['attempts']} attempts: {row['last_error']}" if row["last_error"] else ""
        show.line(f"{row['id']:>6} {show.when(row['created_at'])} {row['project']} {row['status']} {name}{error}")
    if not page["items"]:
        print("No event is set aside." if options.dead else "The queue is empty: everything is observed.")
    elif page["next"]:
        print("… and more.")


def change(options: argparse.Namespace) -> None:
    changed = connect().post(options.route, {"id": options.id or 0})["changed"]
    if show.printed_json(options, {"changed": changed}):
        return
    print(f"{show.count(changed, 'event')} {options.did}." if changed else "No event is set aside.")
