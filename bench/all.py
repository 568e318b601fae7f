"""Runs every bench, one after the other, and puts their tables into RESULTS.md."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

from lab import machine, say

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"
BENCHES = ("hook", "bridge", "ingest", "worker", "recall_load", "vectors", "observer", "search", "page_load", "recall")


def run(name: str) -> str:
    """A bench's own words; its progress goes to the terminal."""
    say(f"bench/{name}.py")
    done = subprocess.run([sys.executable, HERE / f"{name}.py"], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def put(text: str, name: str, body: str) -> str:
    """The text with a part between its two markers replaced."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    pattern = re.compile(f"{re.escape(opening)}.*?{re.escape(closing)}", re.DOTALL)
    if not pattern.search(text):
        raise RuntimeError(f"RESULTS.md has no place for {name}")
    return pattern.sub(lambda _: f"{opening}\n{body}\n{closing}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "only", nargs="*", metavar="BENCH", help=f"of {', '.join(BENCHES)}; all of them if none is named"
    )
    chosen = parser.parse_args().only or BENCHES
    if unknown := set(chosen) - set(BENCHES):
        parser.error(f"there is no bench {', '.join(sorted(unknown))}")
    for name in chosen:
        body = f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC\n\n{run(name)}"
        print(f"\n## {name}\n\n{body}\n", flush=True)
        text = put(RESULTS.read_text("utf-8"), name, body)
        RESULTS.write_text(put(text, "machine", f"{machine()}."), "utf-8")
    say(f"written: {RESULTS.name}")


if __name__ == "__main__":
    main()
