"""Bench: acknowledged events a second and how long each waits, beside plain inserts of the same payload."""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from lab import Lab, end_gently, lab, load, machine, ms, p50, percentile, request, say, table, tool_use, whole

ROUTE = "/api/sessions/observations"
SIZE = 3 << 10
SEND_S = 20.0  # a level sends no longer than this, however slow it is
MARK = b"event-000000000000"


@dataclass
class Level:
    """A way to send, and what came of it in each repeat."""

    name: str
    run: Callable[[int], list[float]]
    rates: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    sender_busy: list[float] = field(default_factory=list)
    worker_busy: list[float] = field(default_factory=list)


class Sender:
    """A client that sends its next event once the one before is acknowledged."""

    def __init__(self, load: Load, session: str) -> None:
        body = load.body(session)
        head = load.token_line + ("" if load.keep else "Connection: close\r\n")
        self._request = request("POST", ROUTE, body, head)
        self._load, self._answer, self._began = load, b"", 0.0
        self.socket: socket.socket | None = None

    def send(self) -> None:
        """The next event; a new connection for each where none is kept."""
        self._answer, self._began = b"", time.perf_counter()
        if self.socket is None:
            self.socket = self._load.connect()
            self._load.selector.register(self.socket, selectors.EVENT_READ, self)
        self.socket.sendall(self._request.replace(MARK, b"event-%012d" % self._load.take()))

    def receive(self) -> float | None:
        """How long the event took, once its answer is whole."""
        assert self.socket
        self._answer += self.socket.recv(1 << 16)
        status = whole(self._answer)
        if status is None:
            return None
        if status != 202 or b'"queued"' not in self._answer:
            raise RuntimeError(f"an event was answered with {self._answer[:300]!r}")
        if not self._load.keep:
            self.close()
        return time.perf_counter() - self._began

    def close(self) -> None:
        if self.socket:
            self._load.selector.unregister(self.socket)
            self.socket.close()
            self.socket = None


class Load:
    """All clients of a level in one thread, so that they do not wait for each other."""

    number = 0

    def __init__(self, machine: Lab, clients: int, tcp: bool, keep: bool) -> None:
        self._lab, self._clients, self._tcp, self.keep = machine, clients, tcp, keep
        self.token_line = f"Authorization: Bearer {machine.token}\r\n" if tcp else ""
        self.selector = selectors.DefaultSelector()

    def body(self, session: str) -> bytes:
        found = json.loads(tool_use(self._lab.project, SIZE))
        wanted = {name: found[name] for name in ("tool_name", "tool_input", "tool_response", "cwd")}
        named = {"claudeSessionId": session, "event_id": MARK.decode(), "tool_use_id": MARK.decode()}
        return json.dumps(named | wanted).encode()

    def connect(self) -> socket.socket:
        if self._tcp:
            made = socket.create_connection(("127.0.0.1", self._lab.port), timeout=30)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(30)
        made.connect(str(self._lab.data / "worker.sock"))
        return made

    def take(self) -> int:
        Load.number += 1
        return Load.number

    def run(self, events: int) -> list[float]:
        """Send so many events, as far as the time allows; how long each waited for its acknowledgement."""
        senders = [Sender(self, f"bench-{self._clients}-{number}") for number in range(min(self._clients, events))]
        waits: list[float] = []
        left, limit = events - len(senders), time.monotonic() + SEND_S
        for sender in senders:
            sender.send()
        open_ones = len(senders)
        while open_ones:
            ready = self.selector.select(30)
            if not ready:
                raise RuntimeError("the worker does not answer any more")
            for key, _ in ready:
                if (took := key.data.receive()) is None:
                    continue
                waits.append(took)
                if left and time.monotonic() < limit:
                    key.data.send()
                    left -= 1
                else:
                    open_ones -= 1
        for sender in senders:
            sender.close()
        return waits


def plain_inserts(folder: Path, payload: str) -> Callable[[int], list[float]]:
    """The floor: one process, one table, a transaction each."""

    def run(events: int) -> list[float]:
        waits = []
        with closing(sqlite3.connect(folder / "floor.db", isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, session TEXT, payload TEXT)")
            for _ in range(events):
                began = time.perf_counter()
                db.execute("INSERT INTO events (session, payload) VALUES (?, ?)", ("bench", payload))
                waits.append(time.perf_counter() - began)
        return waits

    return run


def busy(pid: int) -> float:
    """Seconds of processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(events: int, repeats: int) -> tuple[str, int]:
    with lab() as here, tempfile.TemporaryDirectory(prefix="backstory-bench-") as folder:
        here.start()
        payload = json.dumps(json.loads(tool_use(here.project, SIZE))["tool_response"])
        levels = [Level("floor: plain `sqlite3` inserts", plain_inserts(Path(folder), payload))]
        for clients in (1, 8, 32):
            run = Load(here, clients, tcp=True, keep=True).run
            levels.append(Level(f"TCP, {clients} client{'s' * (clients > 1)}", run))
        for clients in (1, 8):
            run = Load(here, clients, tcp=False, keep=False).run
            levels.append(Level(f"socket, a connection an event, {clients} client{'s' * (clients > 1)}", run))
        for level in levels:
            level.run(min(200, events))
        for repeat in range(repeats):
            for level in levels:
                once(level, events, here.pid)
                say(f"ingest {repeat + 1}/{repeats}: {level.name}: {level.rates[-1]:,.0f}/s, {load()}")
        stored = here.count("events", "kind = 'tool'")
        if stored != Load.number:
            raise RuntimeError(f"{Load.number} events were acknowledged, {stored} are stored")
    return shown(levels), stored


def once(level: Level, events: int, worker: int) -> None:
    began, mine, its = time.perf_counter(), time.process_time(), busy(worker)
    waits = level.run(events)
    took = time.perf_counter() - began
    level.waits += waits
    level.rates.append(len(waits) / took)
    level.sender_busy.append((time.process_time() - mine) / took)
    level.worker_busy.append((busy(worker) - its) / took)


def shown(levels: list[Level]) -> str:
    floor = p50(levels[0].rates)
    rows = [
        [
            level.name,
            f"{p50(level.rates):,.0f}",
            f"{max(level.rates):,.0f}",
            f"{p50(level.rates) / floor:.2f}",
            ms(p50(level.waits)),
            ms(percentile(level.waits, 0.99)),
            f"{p50(level.sender_busy):.0%}",
            f"{p50(level.worker_busy):.0%}" if level is not levels[0] else "",
        ]
        for level in levels
    ]
    heads = ["3 KB tool uses", "events/s", "best", "/ floor", "p50 ms", "p99 ms", "sender's core", "worker's cores"]
    return table(heads, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=4000, help="how many events a level sends in each repeat")
    parser.add_argument("--repeats", type=int, default=3, help="how often each level runs")
    options = parser.parse_args()
    end_gently()
    before = load()
    result, stored = measure(options.events, options.repeats)
    print(
        f"{machine()}; sender, worker and its observer share them. {options.events} events a level (at most {SEND_S:.0f} s), "
        f"{options.repeats} repeats, interleaved, the median one shown; {before} at the start, {load()} at the end.\n"
    )
    print(result)
    print(f"\nAll {stored:,} acknowledged events were counted as rows in `events` afterwards.")


if __name__ == "__main__":
    main()
