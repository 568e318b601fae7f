"""edit and merge: correct observations by hand."""

from __future__ import annotations

import argparse
from typing import Any

from backstory.cli import show
from backstory.cli.memory import number_of
from backstory.cli.worker import connect
from backstory.errors import BackstoryError
from backstory.model import TYPES


def add(commands: Any) -> None:
    edit_ = commands.add_parser("edit", help="correct an observation")
    edit_.description = (
        "Correct an observation. What is not given stays as it is. It is never replaced by the observer again."
    )
    edit_.add_argument("id", metavar="ID", help="an observation's id, as printed by search and context")
    edit_.add_argument("--title", help="its title")
    edit_.add_argument("--subtitle", help="its subtitle")
    edit_.add_argument("--text", help="what it says; - reads standard input")
    edit_.add_argument("--type", choices=TYPES, help="its type")
    edit_.add_argument("--fact", action="append", metavar="F", help="a fact; can be repeated, and replaces all facts")
    edit_.add_argument("--concept", action="append", metavar="C", help="a concept; can be repeated, and replaces all")
    edit_.runs_with_json(edit)
    merge_ = commands.add_parser("merge", help="make one observation of several")
    merge_.description = (
        "Make one observation of several of a project. The first stands with the facts of all; the others leave the "
        "context and point to it."
    )
    merge_.add_argument("ids", nargs="+", metavar="ID", help="an observation's id; the first one stands")
    merge_.add_argument("--title", default="", help="a new title for it")
    merge_.runs_with_json(merge)


def edit(options: argparse.Namespace) -> None:
    text = None if options.text is None else show.given_text(options.text)
    given = {"title": options.title, "subtitle": options.subtitle, "narrative": text, "type": options.type}
    given |= {"facts": options.fact, "concepts": options.concept}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise BackstoryError(
            "Nothing to change was given.", "Give --title, --subtitle, --text, --type, --fact or --concept."
        )
    _changed(options, connect().patch(f"/api/observations/{number_of(options.id)}", changes), "Changed")


def merge(options: argparse.Namespace) -> None:
    body = {"ids": [number_of(word) for word in options.ids], "title": options.title}
    if len(set(body["ids"])) < 2:
        raise BackstoryError("There is nothing to merge.", "Give two ids or more.")
    _changed(options, connect().post("/api/observations/merge", body), "Merged into")


def _changed(options: argparse.Namespace, row: dict[str, Any], did: str) -> None:
    if not show.printed_json(options, row):
        show.line(f"{did}: #{row['id']} {row['type']}: {show.titled(row)}")
