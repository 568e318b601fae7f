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
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from lab import Lab, end_gently, lab, load, machine, ms, p50, percentile, request, say, table, tool_use, whole

ROUTE = "/api/sessions/observations"
SIZE = 3 << 10
WARM = 300
SEND_S = 20.0  # a level sends no longer than this, however slow it is
MARK = b"event-000000000000"


@dataclass
class Level:
    """A way to send, and what came of it in each repeat."""

    name: str
    clients: int = 0
    over_socket: bool = False  #: with a connection for each event, as the hook does; else over TCP, kept open
    stored: int = 0
    rates: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    sender_busy: list[float] = field(default_factory=list)
    worker_busy: list[float] = field(default_factory=list)

    def took(self, waits: list[float], seconds: float, mine: float, its: float) -> None:
        self.waits += waits
        self.rates.append(len(waits) / seconds)
        self.sender_busy.append(mine / seconds)
        self.worker_busy.append(its / seconds)


LEVELS = (
    *((f"TCP, {n} client{'s' * (n > 1)}", n, False) for n in (1, 8, 32)),
    *((f"socket, a connection an event, {n} client{'s' * (n > 1)}", n, True) for n in (1, 8)),
)


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

    def __init__(self, here: Lab, clients: int, tcp: bool, keep: bool) -> None:
        self._lab, self._clients, self._tcp, self.keep = here, clients, tcp, keep
        self.token_line = f"Authorization: Bearer {here.token}\r\n" if tcp else ""
        self.number = 0
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
        self.number += 1
        return self.number

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


def insert_plainly(level: Level, events: int) -> None:
    """The floor: one process, one table, a transaction each."""
    with tempfile.TemporaryDirectory(prefix="backstory-bench-") as folder:
        payload = json.dumps(json.loads(tool_use(Path(folder), SIZE))["tool_response"])
        with closing(sqlite3.connect(Path(folder) / "floor.db", isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, session TEXT, payload TEXT)")
            began, mine, waits = time.perf_counter(), time.process_time(), []
            for _ in range(events):
                start = time.perf_counter()
                db.execute("INSERT INTO events (session, payload) VALUES (?, ?)", ("bench", payload))
                waits.append(time.perf_counter() - start)
            level.took(waits, time.perf_counter() - began, time.process_time() - mine, 0)


def busy(pid: int) -> float:
    """Seconds of processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def send(level: Level, events: int) -> None:
    """One repeat with a worker of its own, so that no level meets what another left."""
    with lab() as here:
        here.start()
        load = Load(here, level.clients, tcp=not level.over_socket, keep=not level.over_socket)
        load.run(WARM)
        began, mine, its = time.perf_counter(), time.process_time(), busy(here.pid)
        waits = load.run(events)
        level.took(waits, time.perf_counter() - began, time.process_time() - mine, busy(here.pid) - its)
        stored = here.count("events", "kind = 'tool'")
        if stored != load.number:
            raise RuntimeError(f"{level.name}: {load.number} events were acknowledged, {stored} are stored")
        level.stored += stored


def measure(events: int, repeats: int) -> list[Level]:
    floor, *levels = [Level("floor: plain `sqlite3` inserts"), *(Level(*row) for row in LEVELS)]
    for repeat in range(repeats):
        insert_plainly(floor, events)
        for level in levels:
            send(level, events)
            say(f"ingest {repeat + 1}/{repeats}: {level.name}: {level.rates[-1]:,.0f}/s, {load()}")
    return [floor, *levels]


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
    levels = measure(options.events, options.repeats)
    print(
        f"{machine()}; sender and worker share them. {options.events} events (at most {SEND_S:.0f} s) a level, "
        f"{options.repeats} repeats, interleaved, the median one shown; {before} at the start, {load()} at the end.\n"
    )
    print(shown(levels))
    stored = sum(level.stored for level in levels)
    print(f"\nEach acknowledged event, {stored:,} in all, was counted as one row in `events` afterwards.")


if __name__ == "__main__":
    main()
