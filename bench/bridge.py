"""Bench: what an agent waits for until `backstory mcp` has answered `initialize`, beside a bare interpreter's start."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from lab import Lab, end_gently, interpreter, lab, load, machine, ms, p50, percentile, say, table

WARM = 5
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}).encode() + b"\n"
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


def bare(python: str, box: Lab) -> float:
    """A bare interpreter, from its start to its end."""
    words = [python, "-I", "-S", "-c", "pass"]
    began = time.perf_counter()
    os.waitpid(os.posix_spawn(python, words, box.env), 0)
    return time.perf_counter() - began


def answered(words: list[str], box: Lab, line: bytes = INITIALIZE) -> float:
    """From the start of a server to its first answer. Started with as little of our own in the time as can be."""
    asked, tell = os.pipe()
    hear, told = os.pipe()
    actions = [
        (os.POSIX_SPAWN_DUP2, asked, 0),
        (os.POSIX_SPAWN_DUP2, told, 1),
        (os.POSIX_SPAWN_CLOSE, tell),
        (os.POSIX_SPAWN_CLOSE, hear),
    ]
    os.write(tell, line)
    began = time.perf_counter()
    pid = os.posix_spawn(words[0], words, box.env, file_actions=actions)
    os.close(told)
    answer = os.read(hear, 1 << 20)
    took = time.perf_counter() - began
    for end in (asked, tell, hear):
        os.close(end)
    os.waitpid(pid, 0)
    if b'"result"' not in answer:
        raise RuntimeError("that was no answer")
    return took


def measure(runs: int) -> str:
    with lab() as box:
        shim = box.install()
        python, bridge = interpreter(shim), [str(shim.with_name("backstory-mcp"))]
        box.start()
        first = answered(bridge, box)
        began = time.perf_counter()
        answered(bridge, box, LIST)
        loading = time.perf_counter() - began
        command = [str(Path(sys.executable).parent / "backstory"), "mcp"]
        times: dict[str, list[float]] = {"floor": [], "bridge": [], "command": []}
        for number in range(WARM + runs):
            if number % 50 == 0:
                say(f"bridge: round {number} of {WARM + runs}, {load()}")
            for name, took in (
                ("floor", bare(python, box)),
                ("bridge", answered(bridge, box)),
                ("command", answered(command, box)),
            ):
                if number >= WARM:
                    times[name].append(took)
    floor = p50(times["floor"])
    names = {
        "floor": "floor: `python -I -S -c pass`, to its end",
        "bridge": "the installed shim, until `initialize` is answered",
        "command": "`backstory mcp` (the console script), the same",
    }
    rows = [
        [names[name], ms(p50(t)), ms(percentile(t, 0.99)), ms(min(t)), f"{p50(t) / floor:.2f}"]
        for name, t in times.items()
    ]
    rows.append(["the very first `initialize` of a worker's life (one run)", ms(first), "", "", f"{first / floor:.2f}"])
    rows.append(["the first `tools/list`, for which the SDK is imported (one run)", ms(loading), "", "", ""])
    return table(["MCP, ms from spawn to answer", "p50", "p99", "min", "p50 / floor"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="how often each variant runs")
    runs = parser.parse_args().runs
    end_gently()
    before = load()
    result = measure(runs)
    print(f"{machine()}. {runs} runs each, interleaved; {before} at the start, {load()} at the end.\n")
    print(result)


if __name__ == "__main__":
    main()
