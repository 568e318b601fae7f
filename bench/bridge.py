"""Bench: what an agent waits for until `backstory mcp` has answered `initialize`, beside a bare interpreter's start."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from lab import Lab, end_gently, interpreter, lab, load, machine, ms, p50, percentile, say, table

WARM = 5
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}).encode() + b"\n"
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


def bare(python: str, env: dict[str, str]) -> float:
    """A bare interpreter, from its start to its end."""
    began = time.perf_counter()
    subprocess.run([python, "-I", "-S", "-c", "pass"], env=env, check=True, stdin=subprocess.DEVNULL)
    return time.perf_counter() - began


def answered(words: list[str | Path], box: Lab, line: bytes = INITIALIZE) -> float:
    """From the start of a server to its first answer."""
    began = time.perf_counter()
    with subprocess.Popen(words, env=box.env, cwd=box.project, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(line)
        server.stdin.flush()
        answer = server.stdout.readline()
        took = time.perf_counter() - began
        server.stdin.close()
    if "result" not in json.loads(answer):
        raise RuntimeError("that was no answer")
    return took


def measure(runs: int) -> str:
    with lab() as box:
        shim = box.install()
        python, bridge = interpreter(shim), shim.with_name("backstory-mcp")
        box.start()
        first = answered([bridge], box)
        began = time.perf_counter()
        answered([bridge], box, LIST)
        loading = time.perf_counter() - began
        command: list[str | Path] = [Path(sys.executable).parent / "backstory", "mcp"]
        times: dict[str, list[float]] = {"floor": [], "bridge": [], "command": []}
        for number in range(WARM + runs):
            if number % 50 == 0:
                say(f"bridge: round {number} of {WARM + runs}, {load()}")
            for name, took in (
                ("floor", bare(python, box.env)),
                ("bridge", answered([bridge], box)),
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
