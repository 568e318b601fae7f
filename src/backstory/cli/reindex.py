"""reindex: rebuilds the search index from the stored rows."""

from __future__ import annotations

import argparse
import time
from typing import Any

from backstory.cli import show
from backstory.cli.worker import connect
from backstory.client import Client

INDEX_ROUTE = "/api/reindex"
VECTORS_ROUTE = "/api/vectors"
#: Pause between two requests for the progress, in seconds.
POLL_S = 0.2


def add(commands: Any) -> None:
    text = (
        "Rebuild the index that search uses, from what is stored. You can search meanwhile. "
        "If this command is interrupted, the worker continues."
    )
    reindex_ = commands.add_parser("reindex", help="rebuild the search index", description=text)
    reindex_.add_argument("--vectors", action="store_true", help="rebuild what search by meaning uses, not the words")
    reindex_.add_argument("--no-wait", action="store_true", help="start it and return immediately")
    reindex_.runs_with_json(reindex)


def reindex(options: argparse.Namespace) -> int:
    client = connect()
    progress = show.ProgressBar(quiet=options.json)
    if options.vectors:
        return _vectors(client, options, progress)
    left = client.post(INDEX_ROUTE, {})["left"]
    while left and not options.no_wait:
        step, done, total = (left[0][name] for name in ("step", "done", "total"))
        progress.show(done, total, f"{step}: {done:,} of {total:,}")
        time.sleep(POLL_S)
        left = client.get(INDEX_ROUTE)["left"]
    progress.end()
    if not show.printed_json(options, {"left": left}):
        print("The index is being rebuilt. You can search meanwhile." if left else "The index was rebuilt.")
    return 0


def _vectors(client: Client, options: argparse.Namespace, progress: show.ProgressBar) -> int:
    vectors = client.post(VECTORS_ROUTE, {})
    total = vectors["due"]
    while vectors["due"] and not options.no_wait and not vectors["problem"]:
        done = total - vectors["due"]
        progress.show(done, total, f"vectors: {done:,} of {total:,}")
        time.sleep(POLL_S)
        vectors = client.get(VECTORS_ROUTE)
    progress.end()
    if options.json:
        show.as_json(vectors)
    elif vectors["problem"]:
        show.line(f"The vectors cannot be rebuilt now: {vectors['problem']}")
    elif vectors["due"]:
        print("The vectors are being rebuilt. Search uses the old ones meanwhile.")
    else:
        print("The vectors were rebuilt.")
    return 1 if vectors["problem"] else 0
