"""reobserve: asks the model about rounds that were observed by rules in its place."""

from __future__ import annotations

import argparse
from typing import Any

from backstory import times
from backstory.cli import hints, show
from backstory.cli.worker import connect

#: How long to wait for the worker, in seconds. It may ask a slow model twice about a round.
TIMEOUT_S = 600.0


def add(commands: Any) -> None:
    text = (
        "Ask the model about rounds that were observed by rules because the model was not available. Its observations "
        "replace those of the rules, one round at a time. Observations that you pinned or changed stay. You can "
        "interrupt this and run it again."
    )
    top = commands.add_parser("reobserve", help="ask the model about rounds observed without it", description=text)
    top.add_argument("--project", default="", help="only this project (name or key)")
    top.add_argument("--since", default="", metavar="TIME", help="not before: yesterday, 3d, 2026-11-01, ...")
    top.add_argument("--dry-run", action="store_true", help="only show how many rounds there are and their tokens")
    top.runs_with_json(reobserve)


def reobserve(options: argparse.Namespace) -> None:
    client = connect(timeout=TIMEOUT_S)
    hints.check_project(client.get, options.project)
    body = {"project": options.project, "since": times.since(options.since), "dry_run": options.dry_run}
    total = {"rounds": 0, "events": 0, "done": 0, "observations": 0, "tokens_estimate": 0}
    after: int | None = 0
    pieces, progress = 0, show.ProgressBar(quiet=options.json)
    while after is not None:
        answer = client.post("/api/reobserve", body | {"after": after})
        after = answer["next"]
        if pieces == 0:
            total |= {"rounds": answer["rounds"], "events": answer["events"]}
        pieces += 1
        total["done"] += answer["redone"]
        total["observations"] += len(answer["observations"])
        total["tokens_estimate"] += answer["tokens_estimate"]
        progress.show(pieces, total["rounds"], f"{pieces} of about {show.count(total['rounds'], 'round')}")
    progress.end()
    if not show.printed_json(options, total):
        print(_result(total, options.dry_run))


def _result(total: dict[str, int], dry_run: bool) -> str:
    if not total["rounds"]:
        return "There are no rounds to observe again."
    if dry_run:
        return (
            f"The model would be asked about {show.count(total['rounds'], 'round')} with "
            f"{show.count(total['events'], 'event')}.\nIt would read about {total['tokens_estimate']:,} tokens."
        )
    left = total["rounds"] - total["done"]
    rounds = show.count(total["done"], "round was", "rounds were")
    done = f"{rounds} observed again, with {show.count(total['observations'], 'observation')}."
    why = "The model's answers could not be read, or another command is asking about them."
    return done + (f"\n{show.count(left, 'round is', 'rounds are')} unchanged. {why}" if left > 0 else "")
