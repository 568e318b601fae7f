"""reobserve: what the rules observed in a model's place, asked of the model."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from backstory import settings
from backstory.cli import show
from backstory.cli.worker import connect
from backstory.client import Client

#: A round may be asked about twice, by a model that takes its time.
PATIENCE_S = 600.0


def add(commands: Any) -> None:
    text = (
        "Ask the model about what the rules observed in its place, while it could not be asked. Its observations take "
        "the place of theirs, a round at a time; what you pinned or changed stays. It can be broken off and run again."
    )
    top = commands.add_parser("reobserve", help="redo with the model what was observed without it", description=text)
    top.add_argument("--project", default="", help="a project's name or key")
    top.add_argument("--since", default="", metavar="TIME", help="a day or time, such as 2026-02-21")
    top.add_argument("--dry-run", action="store_true", help="only say how much there is, and about what it would take")
    top.add_argument("--json", action="store_true", help="print JSON")
    top.set_defaults(run=reobserve)


def reobserve(options: argparse.Namespace) -> int:
    connect()
    client = Client(settings.load().paths.socket, PATIENCE_S)
    asked = {"project": options.project, "since": options.since, "dry_run": options.dry_run}
    total = {"rounds": 0, "events": 0, "done": 0, "observations": 0, "tokens_estimate": 0}
    after: int | None = 0
    pieces = 0
    while after is not None:
        answer = client.post("/api/reobserve", asked | {"after": after})
        after = answer["next"]
        if pieces == 0:
            total |= {"rounds": answer["rounds"], "events": answer["events"]}
        pieces += 1
        total["done"] += answer["redone"]
        total["observations"] += len(answer["observations"])
        total["tokens_estimate"] += answer["tokens_estimate"]
        if not options.json and sys.stderr.isatty() and after is not None:
            print(f"\r{pieces} of about {total['rounds']} rounds", end="", file=show.terminal(), flush=True)
    if not options.json and sys.stderr.isatty():
        print("\r\033[K", end="", file=show.terminal())
    if options.json:
        show.as_json(total)
    else:
        print(_told(total, options.dry_run))
    return 0


def _told(total: dict[str, int], only_looked: bool) -> str:
    if not total["rounds"]:
        return "Nothing was observed in a model's place."
    if only_looked:
        return (
            f"{total['rounds']} rounds with {total['events']} events would be asked of the model; it would read about "
            f"{total['tokens_estimate']:,} tokens."
        )
    left = total["rounds"] - total["done"]
    told = f"{total['done']} rounds were redone: {total['observations']} observations."
    return told + (
        f" {left} are as they were: the model's answers could not be read, or another is asking." if left > 0 else ""
    )
