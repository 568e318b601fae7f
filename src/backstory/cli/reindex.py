"""The index: made anew from what is stored."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from backstory.cli import show
from backstory.cli.worker import connect

ROUTE = "/api/reindex"
LOOK_S = 0.2


def add(commands: Any) -> None:
    told = "Make the index of words anew from what is stored. Search goes on meanwhile, and so does this without you."
    reindex_ = commands.add_parser("reindex", help="make the search index anew", description=told)
    reindex_.add_argument("--no-wait", action="store_true", help="begin it, and do not wait until it is done")
    reindex_.add_argument("--json", action="store_true", help="print JSON")
    reindex_.set_defaults(run=reindex)


def reindex(options: argparse.Namespace) -> int:
    client = connect()
    left = client.post(ROUTE, {})["left"]
    quiet = options.json or not sys.stderr.isatty()
    while left and not options.no_wait:
        if not quiet:
            now = left[0]
            sys.stderr.write(f"\r{now['step']}: {now['done']:,} of {now['total']:,}\x1b[K")
            sys.stderr.flush()
        time.sleep(LOOK_S)
        left = client.get(ROUTE)["left"]
    if not quiet:
        sys.stderr.write("\r\x1b[K")
    if options.json:
        show.as_json({"left": left})
    else:
        print("The index is being made anew; search goes on meanwhile." if left else "The index was made anew.")
    return 0
