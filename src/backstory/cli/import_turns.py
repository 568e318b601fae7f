"""import conversations: reads turns of other programs from lines of JSON."""

from __future__ import annotations

import argparse
import gzip
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from backstory.batches import batches
from backstory.cli import show
from backstory.cli.worker import RetryingClient
from backstory.errors import BackstoryError
from backstory.exchange.turn_lines import read
from backstory.paths import expanded

ROUTE = "/api/import/turns"
#: Turns in one request, at most.
BATCH_TURNS = 500
#: Characters in one request. A batch ends at this limit or at `BATCH_TURNS`.
BATCH_CHARACTERS = 1 << 20


def add_source(sources: Any) -> None:
    text = "Import conversations. Each line is one turn as JSON, with project, session, turn, role, text and at."
    source = sources.add_parser("conversations", help="conversations as lines of JSON", description=text)
    source.add_argument("path", metavar="FILE", type=Path, help="a .jsonl or .jsonl.gz file")
    source.add_argument("--project", default="", metavar="NAME", help="store everything under this project")
    source.runs_with_json(run)


def run(options: argparse.Namespace) -> None:
    path: Path = expanded(options.path)
    counts: Counter[str] = Counter(added=0, known=0, skipped=0)
    unreadable: Counter[str] = Counter(lines=0)
    project = {"project": options.project} if options.project else {}
    started, client = time.monotonic(), RetryingClient()
    try:
        with path.open("rb") as raw:
            size, progress = path.stat().st_size, show.ProgressBar(quiet=options.json)
            source: IO[bytes] = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw  # type: ignore[assignment]
            turns = read(source, unreadable)
            for batch in batches(turns, lambda turn: len(turn.text), BATCH_TURNS, BATCH_CHARACTERS):
                counts.update(client.post(ROUTE, {"turns": [asdict(turn) | project for turn in batch]}))
                progress.show(raw.tell(), size, f"{counts['added']:,} turns")
            progress.end()
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        hint = "The turns before the damage are stored." if sum(counts.values()) else "Check the path."
        raise BackstoryError(f"{path} could not be read: {reason}.", hint) from None
    if not sum(counts.values()):
        raise BackstoryError(f"There are no conversations in {path}.", "Each line must be one turn as JSON.")
    result: dict[str, Any] = dict(counts) | {
        "unreadable": unreadable["lines"],
        "seconds": round(time.monotonic() - started, 1),
    }
    if not show.printed_json(options, result):
        added = show.count(result["added"], "turn")
        print(f"{added} added in {result['seconds']} s, {result['known']:,} already known.")
        if result["skipped"]:
            print(f"{show.count(result['skipped'], 'turn')} not stored: the project is excluded.")
        if result["unreadable"]:
            print(f"{show.count(result['unreadable'], 'line')} could not be read.")
