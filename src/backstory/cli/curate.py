"""remember, pin, supersede, hide and forget: change memory by hand."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from backstory import ids, settings
from backstory.cli import session_lines, show
from backstory.cli.memory import number_of
from backstory.cli.worker import connect
from backstory.errors import BackstoryError
from backstory.model import TYPES

#: How long to wait for the worker, in seconds. Wiping the files of a large database takes long.
TIMEOUT_S = 3600.0
#: `forget` says that it takes a moment if the database is larger than this, in bytes.
LARGE_DATABASE = 200 << 20


def add(commands: Any) -> None:
    remember_ = commands.add_parser("remember", help="add an observation to memory")
    remember_.description = "Add an observation to memory. It becomes part of the next session's context."
    remember_.add_argument("text", metavar="TEXT", help="what to remember; - reads standard input")
    remember_.add_argument("--title", default="", help="its title (default: the beginning of TEXT)")
    remember_.add_argument("--type", default="decision", choices=TYPES, help="its type (default: decision)")
    remember_.add_argument("--project", default="", help="project name or key (default: the current directory's)")
    remember_.add_argument("--concept", action="append", default=[], metavar="C", help="a concept; can be repeated")
    remember_.runs_with_json(remember)
    pin_ = commands.add_parser("pin", help="keep observations in the context of every session")
    pin_.description = "Keep observations in the context of every session of their project."
    pin_.add_argument("ids", nargs="+", metavar="ID", help="an observation's id, as printed by search and context")
    pin_.add_argument("--off", action="store_true", help="unpin them")
    pin_.runs_with_json(pin)
    supersede_ = commands.add_parser("supersede", help="replace an observation with a newer one")
    supersede_.description = (
        "Replace an observation with a newer one. The old one leaves the context and points to the new one."
    )
    supersede_.add_argument("old", metavar="OLD", help="id of the observation that is replaced")
    supersede_.add_argument("new", nargs="?", metavar="NEW", help="id of its replacement, in the same project")
    supersede_.add_argument("--off", action="store_true", help="undo: OLD is valid again")
    supersede_.runs_with_json(supersede)
    hide_ = commands.add_parser("hide", help="take something out of context and search")
    hide_.description = (
        "Take observations or sessions out of context and search. Nothing is deleted: `show` still shows them, and "
        "--undo brings them back. What later sessions say again is hidden, too."
    )
    hide_.add_argument("ids", nargs="*", metavar="ID", help="12 or #12 is an observation, S3 a session")
    hide_.add_argument("--undo", action="store_true", help="bring them back")
    hide_.add_argument("--list", action="store_true", help="list what is hidden")
    hide_.add_argument("--project", default="", help="with --list: only in this project (name or key)")
    hide_.runs_with_json(hide)
    forget_ = commands.add_parser("forget", help="delete from memory permanently")
    forget_.description = (
        "Delete observations, a session, a project, or everything that matches a search, in every file of the data "
        "directory. An observation goes with the events that only it came from and the sentences that say it. Lists "
        "first what would go. This cannot be undone; `backstory hide` can."
    )
    forget_.add_argument("ids", nargs="*", metavar="ID", help="12 or #12 is an observation, S3 a session")
    forget_.add_argument("--session", metavar="ID", help="a session: its number, or the agent's id or a prefix of it")
    forget_.add_argument("--project", default="", help="a project (name or key); with --matching, search only there")
    forget_.add_argument("--matching", nargs="+", metavar="WORDS", help="everything that contains all of these words")
    forget_.add_argument(
        "--yes", action="store_true", help="delete without asking; without it, and without a terminal, only list"
    )
    forget_.runs_with_json(forget)


def remember(options: argparse.Namespace) -> None:
    text = show.given_text(options.text)
    if not text.strip():
        raise BackstoryError("The text is empty.", 'Example: `backstory remember "we keep prices in cents"`.')
    body = {
        "text": text,
        "title": options.title,
        "type": options.type,
        "project": options.project,
        "cwd": str(Path.cwd()),
        "concepts": options.concept,
    }
    row = connect().post("/api/memories", body)
    if not show.printed_json(options, row):
        show.line(f"Remembered for {row['project']}: #{row['id']} {row['type']}: {show.titled(row)}")


def pin(options: argparse.Namespace) -> None:
    client, numbers = connect(), [number_of(word) for word in options.ids]
    rows = []
    for number in numbers:
        row = client.patch(f"/api/observations/{number}", {"pinned": not options.off})
        rows.append(row)
        if not options.json:
            show.line(f"{'Unpinned' if options.off else 'Pinned'}: #{row['id']} {row['type']}: {show.titled(row)}")
    if options.json:
        show.as_json({"items": rows})


def supersede(options: argparse.Namespace) -> None:
    if options.off == (options.new is not None):
        raise BackstoryError("Give two ids, OLD and NEW, or OLD with --off.")
    old, new = number_of(options.old), None if options.off else number_of(options.new)
    row = connect().patch(f"/api/observations/{old}", {"superseded_by": new})
    if show.printed_json(options, row):
        return
    result = f"Replaced by #{new}" if new else "Valid again"
    show.line(f"{result}: #{row['id']} {row['type']}: {show.titled(row)}")


def hide(options: argparse.Namespace) -> None:
    if options.list == bool(options.ids) or (options.project and options.ids):
        raise BackstoryError("Give ids to hide, or --list.", "Find ids with `backstory search`.")
    client = connect(timeout=TIMEOUT_S)
    if options.list:
        page = client.get("/api/hidden", project=options.project, limit="200")
    else:
        page = client.post("/api/hide", split_ids(options.ids) | {"undo": options.undo})
    if show.printed_json(options, page):
        return
    did = "" if options.list else "Shown again: " if options.undo else "Hidden: "
    for row in page["observations"]:
        show.line(f"{did}#{row['id']} {row['type']}: {show.titled(row)}")
    for row in page["sessions"]:
        asked = row["title"] or row["first_user_prompt"] or ""
        show.line(f"{did}S{row['id']} {show.when(row['last_event_at'])} {row['project']}: {asked}")
    if options.list and not (page["observations"] or page["sessions"]):
        print("Nothing is hidden.")


def forget(options: argparse.Namespace) -> int:
    body: dict[str, Any] = {"project": options.project} | split_ids(options.ids)
    client = connect(timeout=TIMEOUT_S)
    if options.session:
        body["sessions"].append(client.get(session_lines.route(options.session))["id"])
    if options.matching:
        body["matching"] = " ".join(f'"{word}"' if " " in word else word for word in options.matching)
    if not (options.ids or options.session or options.project or options.matching):
        raise BackstoryError("Nothing to forget was given.", "Give ids, --session, --project or --matching.")
    if not options.yes:
        listed = client.post("/api/forget", body | {"dry_run": True})
        if show.printed_json(options, listed):
            return 0
        if not print_deleted(listed, True) or not _confirmed():
            return 0
    if not options.json:
        _warn_if_large()
    deleted = client.post("/api/forget", body)
    if not show.printed_json(options, deleted):
        print_deleted(deleted, False, is_listed=not options.yes)
    return 0 if deleted["wiped"] else 1


def split_ids(marks: list[str]) -> dict[str, list[int]]:
    """Return the ids of observations and of sessions: `12` and `#12` are an observation, `S3` is a session."""
    found = {mark: ids.session_number(mark) for mark in marks}
    return {
        "ids": [number_of(mark) for mark, session in found.items() if session is None],
        "sessions": [session for session in found.values() if session is not None],
    }


def _confirmed() -> bool:
    """Ask on a terminal. Elsewhere nothing is deleted without --yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("Run it again with --yes to delete this. It cannot be undone.")
        return False
    return show.confirmed("Delete this? It cannot be undone.")


def _warn_if_large() -> None:
    database = settings.load().paths.database
    if database.exists() and database.stat().st_size > LARGE_DATABASE:
        size = show.size(database.stat().st_size)
        print(f"The database ({size}) is rewritten. This takes a moment.", file=sys.stderr)


#: field of the answer -> what one of it is called
_NOUNS = {
    "sessions": "session",
    "prompts": "prompt",
    "observations": "observation",
    "summaries": "summary",
    "turns": "turn",
    "events": "event",
    "passages": "sentence",
    "transcripts": "transcript",
}


def print_deleted(deleted: dict[str, Any], dry_run: bool, is_listed: bool = False) -> bool:
    """Print what was or would be deleted. Return whether there was anything. If it was listed before, what stays is
    not said again."""
    for item in deleted["items"]:
        kind = item.get("type") or item["kind"]
        when = show.when(item["created_at"]) + " " if "created_at" in item else ""
        show.line(f"{show.mark(item):>6} {when}{kind}: {show.titled(item)}")
    counts = ", ".join(
        show.count(number, noun)
        for field, noun in _NOUNS.items()
        if (number := len(deleted[field]) if field == "observations" else deleted[field])
    )
    if not counts:
        print("Nothing was found.")
    else:
        show.wrapped(f"{'Would be forgotten' if dry_run else 'Forgotten'}: {counts}.")
    if deleted["beside"] and not is_listed:
        others = " ".join(f"#{number}" for number in deleted["beside"][:20])
        show.paragraph(f"Made from the same events, and {'would stay' if dry_run else 'still stored'}: {others}.")
    if not dry_run and not deleted["wiped"]:
        print("An export or another reader uses the database. Its files are wiped when that ends.", file=sys.stderr)
    return bool(counts)
