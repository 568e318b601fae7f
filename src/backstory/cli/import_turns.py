"""import conversations: what was said elsewhere, from lines of JSON."""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from backstory.cli import show
from backstory.cli.worker import connect
from backstory.client import Client
from backstory.errors import BackstoryError, StoreUnavailable, WorkerAway
from backstory.exchange.turn_lines import Said, read

ROUTE = "/api/import/turns"
#: One piece: so many turns, or so many characters, whichever comes first.
TURNS, CHARACTERS = 500, 1 << 20
TRIES = 5


def add_source(sources: Any) -> None:
    about = "Read conversations: a line of JSON a turn, with project, session, turn, role, text and at."
    source = sources.add_parser("conversations", help="conversations as lines of JSON", description=about)
    source.add_argument("path", metavar="FILE", type=Path, help="a .jsonl or .jsonl.gz file")
    source.add_argument("--project", default="", metavar="NAME", help="file all of it under this project")
    source.add_argument("--json", action="store_true", help="print JSON")
    source.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    path: Path = options.path.expanduser()
    counts: Counter[str] = Counter(added=0, known=0, skipped=0)
    bad: Counter[str] = Counter(lines=0)
    started, sender = time.monotonic(), _Sender()
    try:
        with path.open("rb") as raw:
            bar = _Bar(raw, path.stat().st_size, options.json)
            source: IO[bytes] = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw  # type: ignore[assignment]
            for batch in _batches(read(source, bad)):
                counts.update(sender.send(batch, options.project))
                bar.show(counts)
            bar.end()
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or "it is damaged"
        raise BackstoryError(f"{path} could not be read: {why}.", "What came before that is kept.") from None
    if not sum(counts.values()):
        raise BackstoryError(f"There are no conversations in {path}.", "It takes a line of JSON for each turn.")
    told = dict(counts) | {"unreadable": bad["lines"], "seconds": round(time.monotonic() - started, 1)}
    if options.json:
        show.as_json(told)
    else:
        print(
            f"{told['added']} turns added in {told['seconds']} s, {told['known']} known already"
            + (f", {told['skipped']} of excluded projects" if told["skipped"] else "")
            + (f"; {told['unreadable']} lines could not be read." if told["unreadable"] else ".")
        )
    return 0


def _batches(said: Iterator[Said]) -> Iterator[list[Said]]:
    batch: list[Said] = []
    size = 0
    for one in said:
        if batch and (len(batch) >= TURNS or size + len(one.text) > CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one.text)
    if batch:
        yield batch


class _Sender:
    """Sends turns to the worker; one that went away is started again and asked anew, which changes nothing."""

    def __init__(self) -> None:
        self._client: Client | None = None

    def send(self, batch: list[Said], project: str) -> dict[str, int]:
        given = [asdict(one) | ({"project": project} if project else {}) for one in batch]
        for attempt in range(1, TRIES + 1):
            try:
                self._client = self._client or connect()
                answer: dict[str, int] = self._client.post(ROUTE, {"turns": given})
            except (WorkerAway, StoreUnavailable):
                self._client = None
                if attempt == TRIES:
                    raise
                time.sleep(0.2 * 2**attempt)
            else:
                return answer
        raise AssertionError


class _Bar:
    """How far the file is read, where somebody looks."""

    def __init__(self, raw: IO[bytes], size: int, quiet: bool) -> None:
        self._raw, self._size, self._shown = raw, max(size, 1), sys.stderr.isatty() and not quiet

    def show(self, counts: Counter[str]) -> None:
        if self._shown:
            share = self._raw.tell() / self._size
            print(
                f"\r[{'#' * int(share * 40):<40}] {counts['added']:,} turns", end="", file=show.terminal(), flush=True
            )

    def end(self) -> None:
        if self._shown:
            print(file=sys.stderr)
