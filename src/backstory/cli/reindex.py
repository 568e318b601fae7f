"""The index: made anew from what is stored."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from backstory.cli import show
from backstory.cli.worker import connect
from backstory.client import Client

ROUTE, VECTORS = "/api/reindex", "/api/vectors"
LOOK_S = 0.2


def add(commands: Any) -> None:
    told = (
        "Make the index of words anew from what is stored, or the vectors. Search goes on meanwhile, and so does this."
    )
    reindex_ = commands.add_parser("reindex", help="make the search index anew", description=told)
    reindex_.add_argument("--vectors", action="store_true", help="make the vectors anew, not the words")
    reindex_.add_argument("--no-wait", action="store_true", help="begin it, and do not wait until it is done")
    reindex_.add_argument("--json", action="store_true", help="print JSON")
    reindex_.set_defaults(run=reindex)


def reindex(options: argparse.Namespace) -> int:
    client = connect()
    quiet = options.json or not sys.stderr.isatty()
    if options.vectors:
        return _vectors(client, options, quiet)
    left = client.post(ROUTE, {})["left"]
    while left and not options.no_wait:
        if not quiet:
            now = left[0]
            show.terminal().write(f"\r{now['step']}: {now['done']:,} of {now['total']:,}\x1b[K")
            sys.stderr.flush()
        time.sleep(LOOK_S)
        left = client.get(ROUTE)["left"]
    if not quiet:
        show.terminal().write("\r\x1b[K")
    if options.json:
        show.as_json({"left": left})
    else:
        print("The index is being made anew; search goes on meanwhile." if left else "The index was made anew.")
    return 0


def _vectors(client: Client, options: argparse.Namespace, quiet: bool) -> int:
    told = client.post(VECTORS, {})
    total = told["due"]
    while told["due"] and not options.no_wait and not told["problem"]:
        if not quiet:
            show.terminal().write(f"\rvectors: {total - told['due']:,} of {total:,}\x1b[K")
            sys.stderr.flush()
        time.sleep(LOOK_S)
        told = client.get(VECTORS)
    if not quiet:
        show.terminal().write("\r\x1b[K")
    if options.json:
        show.as_json(told)
    elif told["problem"]:
        show.line(f"The vectors can not be made now: {told['problem']}")
    else:
        print(
            "The vectors are being made anew; the old serve meanwhile."
            if told["due"]
            else "The vectors were made anew."
        )
    return 1 if told["problem"] else 0
