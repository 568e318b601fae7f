"""Bench: the worker's cold start beside the import of what it is built on, its memory, and the context route."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from lab import Lab, Wire, end_gently, lab, load, machine, ms, p50, percentile, say, table, tool_use

FLOOR = [sys.executable, "-c", "import starlette, uvicorn, msgspec"]
EVENTS = 2000
SIZES = (100, 2000)
IDLE_S = 1.0


def import_floor() -> float:
    began = time.perf_counter()
    subprocess.run(FLOOR, check=True, timeout=60)
    return time.perf_counter() - began


def empty_start() -> float:
    """A first start: an empty folder, the database made."""
    with lab() as here:
        return here.start()


def start_again(here: Lab) -> float:
    here.stop()
    return here.start()


def starts(full: Lab, runs: int) -> str:
    found: dict[str, list[float]] = {
        FLOOR[2]: [],
        "first start, empty folder": [],
        f"start, {SIZES[-1]} observations": [],
    }
    for number in range(runs + 1):
        times = (import_floor(), empty_start(), start_again(full))
        if number:  # the first warms the caches
            for kept, took in zip(found.values(), times, strict=True):
                kept.append(took)
    floor = p50(next(iter(found.values())))
    rows = [
        [
            f"floor: `python -c {name!r}`" if name == FLOOR[2] else name,
            ms(p50(t)),
            ms(max(t)),
            ms(min(t)),
            f"{p50(t) / floor:.2f}",
        ]
        for name, t in found.items()
    ]
    return table(["until /api/health answers, ms", "p50", "max", "min", "p50 / floor"], rows)


def memory(pid: int) -> list[str]:
    """Resident and proportional size in MB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = {line.split(":")[0]: line.split()[1] for line in text.splitlines() if line.startswith(("Rss", "Pss:"))}
    return [f"{int(sizes[name]) / 1024:.1f}" for name in ("Rss", "Pss")]


def weigh() -> str:
    with lab() as here:
        here.start()
        time.sleep(IDLE_S)
        rows = [["idle, after start", *memory(here.pid)]]
        found = json.loads(tool_use(here.project, 3 << 10))
        use = {name: found[name] for name in ("tool_name", "tool_input", "tool_response", "cwd")}
        with closing(Wire(here)) as wire:
            for number in range(EVENTS):
                wire.post("/api/sessions/observations", claudeSessionId=f"bench-{number // 100}", **use)
        say("worker: waiting for the observer")
        here.settle()
        rows.append([f"after {EVENTS:,} events of 3 KB, all observed", *memory(here.pid)])
    return table(["memory, MB", "RSS", "PSS"], rows)


def context(here: Lab, observations: int, calls: int) -> list[str]:
    """The context route over one connection that is kept."""
    here.fill(observations)
    held, times = here.count("observations"), []
    with closing(Wire(here, tcp=True)) as wire:
        for number in range(calls + 10):
            began = time.perf_counter()
            wire.call("GET", f"/api/context/inject?project={quote(here.project.name)}")
            if number >= 10:
                times.append(time.perf_counter() - began)
    return [f"{held:,} observations", ms(p50(times)), ms(percentile(times, 0.99)), ms(min(times))]


def measure(runs: int, calls: int) -> str:
    with lab() as full:
        full.start()
        rows = []
        for size in SIZES:
            say(f"worker: filling the memory with {size} observations, {load()}")
            rows.append(context(full, size, calls))
        route = table(["GET /api/context/inject, ms", "p50", "p99", "min"], rows)
        say(f"worker: starts, {load()}")
        cold = starts(full, runs)
    say(f"worker: memory, {load()}")
    return f"{cold}\n\n{weigh()}\n\n{route}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="how often it starts")
    parser.add_argument("--calls", type=int, default=200, help="how often the context is asked for")
    options = parser.parse_args()
    end_gently()
    before = load()
    result = measure(options.runs, options.calls)
    print(f"{machine()}. {options.runs} starts each, interleaved; {before} at the start, {load()} at the end.\n")
    print(result)


if __name__ == "__main__":
    main()
