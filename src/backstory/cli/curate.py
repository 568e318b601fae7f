"""What people do to memory by hand: remember, pin, supersede, forget."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from backstory import settings
from backstory.cli import show
from backstory.cli.memory import number_of
from backstory.cli.worker import connect
from backstory.client import Client
from backstory.errors import BackstoryError
from backstory.model import TYPES

#: Wiping the files of a large memory takes its time.
PATIENCE_S = 3600.0
LARGE = 200 << 20


def add(commands: Any) -> None:
    remember_ = commands.add_parser("remember", help="add something to what is remembered")
    remember_.description = "Add something to what is remembered; the next session is told."
    remember_.add_argument("text", metavar="TEXT", help="what to remember; - reads it from standard input")
    remember_.add_argument("--title", default="", help="a line that says what it is about; else its beginning")
    remember_.add_argument("--type", default="decision", choices=TYPES, help="what it is (decision)")
    remember_.add_argument("--project", default="", help="a project's name or key; else this directory's")
    remember_.add_argument("--concept", action="append", default=[], metavar="C", help="a concept; may be repeated")
    remember_.add_argument("--json", action="store_true", help="print JSON")
    remember_.set_defaults(run=remember)
    pin_ = commands.add_parser("pin", help="have something always stand in context")
    pin_.description = "Have observations always stand in what a session of their project is told."
    pin_.add_argument("ids", nargs="+", metavar="ID", help="an observation, as search and context show it")
    pin_.add_argument("--off", action="store_true", help="no longer")
    pin_.set_defaults(run=pin)
    supersede_ = commands.add_parser("supersede", help="say that a later observation holds in place of an older one")
    supersede_.description = (
        "Say that a later observation holds in place of an older one: that one is no longer told, and points to it."
    )
    supersede_.add_argument("old", metavar="OLD", help="what no longer holds")
    supersede_.add_argument("new", nargs="?", metavar="NEW", help="what holds now, of the same project")
    supersede_.add_argument("--off", action="store_true", help="take it back: OLD holds again")
    supersede_.set_defaults(run=supersede)
    forget_ = commands.add_parser("forget", help="remove something from memory, for good")
    forget_.description = (
        "Remove observations, a session, a project, or all that has some words: from memory, from what it was made of, "
        "and from every file in the data directory. Nothing brings it back."
    )
    forget_.add_argument("ids", nargs="*", metavar="ID", help="an observation, as search and context show it")
    forget_.add_argument("--session", metavar="ID", help="a session: its number, the agent's id, or its beginning")
    forget_.add_argument("--project", default="", help="a project's name or key; with --matching, only there")
    forget_.add_argument("--matching", nargs="+", metavar="WORDS", help="all that has every one of these words")
    forget_.add_argument(
        "--yes", action="store_true", help="do it; without, a session, project or search is only shown"
    )
    forget_.add_argument("--json", action="store_true", help="print JSON")
    forget_.set_defaults(run=forget)


def remember(options: argparse.Namespace) -> int:
    text = sys.stdin.read() if options.text == "-" else options.text
    if not text.strip():
        raise BackstoryError("There is nothing to remember.", 'Say it: `backstory remember "we keep prices in cents"`.')
    body = {
        "text": text,
        "title": options.title,
        "type": options.type,
        "project": options.project,
        "cwd": str(Path.cwd()),
        "concepts": options.concept,
    }
    row = connect().post("/api/memories", body)
    if options.json:
        show.as_json(row)
    else:
        show.line(f"#{row['id']} {row['project']} {row['type']}: {row['title']}")
    return 0


def pin(options: argparse.Namespace) -> int:
    client, numbers = connect(), [number_of(word) for word in options.ids]
    for number in numbers:
        row = client.patch(f"/api/observations/{number}", {"pinned": not options.off})
        show.line(f"{'No longer pinned' if options.off else 'Pinned'}: #{row['id']} {row['type']}: {row['title']}")
    return 0


def supersede(options: argparse.Namespace) -> int:
    if options.off == (options.new is not None):
        raise BackstoryError("Name the older and the newer observation, or the older with --off.")
    old, new = number_of(options.old), None if options.off else number_of(options.new)
    row = connect().patch(f"/api/observations/{old}", {"superseded_by": new})
    told = f"Replaced by #{new}" if new else "Holds again"
    show.line(f"{told}: #{row['id']} {row['type']}: {row['title']}")
    return 0


def forget(options: argparse.Namespace) -> int:
    body: dict[str, Any] = {"project": options.project, "ids": [number_of(word) for word in options.ids]}
    client = connect()
    if options.session:
        from urllib.parse import quote

        body["session"] = client.get(f"/api/sessions/{quote(options.session, safe='', errors='replace')}")["id"]
    if options.matching:
        body["matching"] = " ".join(f'"{word}"' if " " in word else word for word in options.matching)
    if not (options.ids or options.session or options.project or options.matching):
        raise BackstoryError("Nothing is named to forget.", "Name ids, --session, --project or --matching.")
    only_look = not options.yes and bool(options.session or options.project or options.matching)
    if not only_look and not options.json:
        _warn_if_large()
    patient = Client(settings.load().paths.socket, PATIENCE_S)
    gone = patient.post("/api/forget", body | {"dry_run": only_look})
    if options.json:
        show.as_json(gone)
    else:
        _print(gone, only_look)
    return 0 if only_look or gone["wiped"] else 1


def _warn_if_large() -> None:
    database = settings.load().paths.database
    if database.exists() and database.stat().st_size > LARGE:
        size = show.size(database.stat().st_size)
        print(f"The database ({size}) is rewritten without it; that takes a moment.", file=sys.stderr)


def _print(gone: dict[str, Any], only_look: bool) -> None:
    for item in gone["items"]:
        what = item.get("type") or item["kind"]
        show.line(f"{show.mark(item):>6} {show.when(item['created_at'])} {item['project']} {what}: {item['title']}")
    counts = ", ".join(
        f"{number} {name if number != 1 else name.removesuffix('ies') + 'y' if name.endswith('ies') else name[:-1]}"
        for name in ("sessions", "prompts", "observations", "summaries", "turns", "events")
        if (number := len(gone[name]) if name == "observations" else gone[name])
    )
    if only_look:
        print(
            f"Would be forgotten: {counts}. `--yes` does it; it can not be undone." if counts else "Nothing was found."
        )
        return
    print(f"Forgotten: {counts}." if counts else "Nothing was found.")
    if gone["beside"]:
        others = " ".join(f"#{number}" for number in gone["beside"][:20])
        print(f"Made of the same events, and still there: {others}")
    if not gone["wiped"]:
        print(
            "Somebody reads the database, such as an export: its files are wiped when they are done.", file=sys.stderr
        )
