"""sessions keep: copies transcripts into the database, so that they can be resumed after the agent has deleted them."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backstory.cli import hints, show
from backstory.cli.worker import RetryingClient
from backstory.client import items_of
from backstory.errors import BackstoryError
from backstory.paths import is_observers
from backstory.settings import environment

ROUTE = "/api/transcripts"


def add_action(actions: Any) -> None:
    text = (
        "Copy transcripts into the database, with those of subagents. What the agent adds later is copied, too. "
        "A kept session can be resumed after the agent has deleted its file."
    )
    keep_ = actions.add_parser("keep", help="keep transcripts, so that they can always be resumed", description=text)
    keep_.add_argument("ids", nargs="*", metavar="ID", help="a session's number, or the agent's id or a prefix of it")
    keep_.add_argument("--all", action="store_true", help="keep every transcript on this machine")
    keep_.add_argument("--project", default="", metavar="NAME", help="keep all sessions of a project (name or key)")
    keep_.runs_with_json(keep)


def keep(options: argparse.Namespace) -> int:
    if sum(map(bool, (options.ids, options.all, options.project))) != 1:
        raise BackstoryError("Which sessions?", "Give ids, or --all, or --project NAME.")
    client = RetryingClient()
    hints.check_project(client.get, options.project)
    wanted = list(_wanted(client, options))
    counts: Counter[str] = Counter(kept=0, entries=0, damaged=0, not_kept=0)
    reasons: dict[str, str] = {}
    progress = show.ProgressBar(quiet=options.json)
    for number, body in enumerate(wanted, 1):
        try:
            answer = client.post(ROUTE, body)
            counts.update(kept=1, entries=answer["added"], damaged=answer["damaged"])
        except BackstoryError as error:
            if error.status not in (400, 404):
                raise
            counts["not_kept"] += 1
            reasons[body.get("session") or body["path"]] = str(error)
        progress.show(number, len(wanted), f"{number}/{len(wanted)} transcripts, {counts['entries']} entries")
    progress.end()
    if not show.printed_json(options, {**counts, "reasons": reasons}):
        _print(counts, reasons)
    return 1 if options.ids and reasons else 0


def _wanted(client: RetryingClient, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the transcripts to keep, as the worker's route names them."""
    yield from ({"session": name} for name in options.ids)
    if options.all:
        from backstory.agents import AGENTS  # it takes long to import

        for agent in AGENTS.values():
            roots = agent.transcripts.roots(Path.home(), environment()) if agent.transcripts.keeping else ()
            files = sorted(file for root in roots for file in agent.transcripts.find(root))
            yield from ({"path": str(file), "agent": agent.name} for file in files if not is_observers(file))
    if options.project:
        rows = items_of(client.get, "/api/sessions", project=options.project, limit=200)
        yield from ({"session": str(row["id"])} for row in rows)


def _print(counts: Counter[str], reasons: dict[str, str]) -> None:
    kept, new = show.count(counts["kept"], "transcript is", "transcripts are"), counts["entries"]
    print(f"{kept} kept. {show.count(new, 'entry is', 'entries are')} new.")
    if counts["damaged"]:
        print(f"{show.count(counts['damaged'], 'damaged line was', 'damaged lines were')} skipped.")
    if reasons:
        print(f"{show.count(len(reasons), 'transcript is', 'transcripts are')} not kept:")
        for name, reason in list(reasons.items())[:20]:
            show.line(f"  {name}: {reason}")
