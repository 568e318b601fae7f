"""Bench: does `backstory resume` find the session that somebody means? Asks a worker for remembered phrases.

The phrases and the data directory are not part of this repository. The file of phrases is a list of
{"phrase": …, "session": the agent's id}. The data directory is copied first, so the original is not changed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from lab import Lab, Wire, end_gently, lab, ms, p50, percentile, say, table

#: Sessions that are asked for.
LIMIT = 10
#: Seconds until all vectors are made.
VECTORS_S = 600.0


def asked(wire: Wire, phrase: str, project: str) -> tuple[list[dict[str, Any]], float]:
    """Return the sessions for a phrase, and how long they took."""
    query = urlencode({"words": phrase, "project": project, "limit": LIMIT})
    began = time.perf_counter()
    items: list[dict[str, Any]] = json.loads(wire.call("GET", f"/api/sessions/search?{query}"))["items"]
    return items, time.perf_counter() - began


def wait_for_vectors(wire: Wire) -> None:
    limit = time.monotonic() + VECTORS_S
    while json.loads(wire.call("GET", "/api/vectors"))["due"]:
        if time.monotonic() > limit:
            raise RuntimeError(f"the vectors were not made within {VECTORS_S} s")
        time.sleep(0.2)


def measure(
    machine: Lab, phrases: list[dict[str, str]], project: str
) -> tuple[list[list[str]], list[int], list[float]]:
    """Return a row for each phrase, the rank of its session (0 if it is not found), and the times."""
    rows, ranks, times = [], [], []
    with closing(Wire(machine)) as wire:
        wait_for_vectors(wire)
        asked(wire, "what is loaded with the first search", project)
        for each in phrases:
            items, took = asked(wire, each["phrase"], project)
            names = [item["content_session_id"] for item in items]
            rank = names.index(each["session"]) + 1 if each["session"] in names else 0
            first = items[0]["title"] if items else "-"
            rows.append([each["phrase"], str(rank or "-"), "" if rank == 1 else first])
            ranks.append(rank)
            times.append(took)
    return rows, ranks, times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phrases", type=Path, metavar="PHRASES", help="the file of phrases")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="a data directory with the sessions")
    parser.add_argument("--project", default="", help="search only this project")
    parser.add_argument("--least", type=int, default=0, metavar="N", help="exit with 1 if fewer come first")
    options = parser.parse_args()
    end_gently()
    phrases = json.loads(options.phrases.read_text("utf-8"))
    with lab() as machine:
        shutil.copytree(options.data, machine.data, ignore=shutil.ignore_patterns("worker.*", "spool"))
        say(f"resume: {len(phrases)} phrases, started in {machine.start():.1f} s")
        rows, ranks, times = measure(machine, phrases, options.project)
    first = sum(rank == 1 for rank in ranks)
    print(table(("phrase", "rank", "first instead"), rows))
    print(f"\n{first} of {len(ranks)} first, {sum(0 < rank <= 5 for rank in ranks)} among the first five.", end=" ")
    print(f"p50 {ms(p50(times))} ms, p95 {ms(percentile(times, 0.95))} ms.")
    return 1 if first < options.least else 0


if __name__ == "__main__":
    sys.exit(main())
