"""What the benches share: a machine of one's own, its worker, payloads, percentiles and tables."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from backstory.paths import Paths
from backstory.prefilter import suspicious

COMMAND = str(Path(sys.executable).parent / "backstory")
START_S = 30.0
SETTLE_S = 300.0
#: Where a payload's own number stands, so that no two tool uses are the same one.
MARK = b"toolu_0000000000000000"


class Wire:
    """One connection to the worker: over TCP with the token, or over its socket."""

    def __init__(self, lab: Lab, tcp: bool = False) -> None:
        self.head = ""
        if tcp:
            self._socket = socket.create_connection(("127.0.0.1", lab.port), timeout=30)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.head = f"Authorization: Bearer {lab.token}\r\n"
        else:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(30)
            self._socket.connect(str(lab.data / "worker.sock"))

    def call(self, method: str, route: str, body: bytes = b"") -> bytes:
        """Ask, and wait for the whole answer; anything but 2xx is an error."""
        self._socket.sendall(request(method, route, body, self.head))
        answer = b""
        while (done := whole(answer)) is None:
            chunk = self._socket.recv(1 << 16)
            if not chunk:
                raise OSError("the worker closed the connection")
            answer += chunk
        if not 200 <= done < 300:
            raise OSError(f"{method} {route} was answered with {done}")
        return answer.partition(b"\r\n\r\n")[2]

    def post(self, route: str, **body: Any) -> None:
        self.call("POST", route, json.dumps(body).encode())

    def close(self) -> None:
        self._socket.close()


def request(method: str, route: str, body: bytes = b"", head: str = "") -> bytes:
    """A request in one piece: two writes would wait for each other."""
    kind = "Content-Type: application/json\r\n" if body else ""
    return (
        f"{method} {route} HTTP/1.1\r\nHost: localhost\r\n{head}{kind}Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


def whole(answer: bytes) -> int | None:
    """The status of an answer that has arrived, None while some of it is missing."""
    head, _, body = answer.partition(b"\r\n\r\n")
    at = head.lower().find(b"content-length:")
    if at < 0 or len(body) < int(head[at + 15 :].split(b"\r\n", 1)[0]):
        return None
    return int(head[9:12])


class Lab:
    """One user's machine in a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.data = self.home / ".backstory"
        self.project = root / "shop"
        for folder in (self.home, self.project):
            folder.mkdir(exist_ok=True)
        self._worker: subprocess.Popen[bytes] | None = None
        self.settings: dict[str, str] = {}

    @property
    def env(self) -> dict[str, str]:
        plain = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", "BACKSTORY_PORT": "0"}
        return plain | self.settings

    def install(self) -> Path:
        """The shim, as the agent's settings name it."""
        words = [COMMAND, "install", "--agent", "claude-code"]
        subprocess.run(words, env=self.env, cwd=self.project, check=True, capture_output=True, timeout=60)
        return Paths(self.data).hook

    def start(self) -> float:
        """The worker, and how long it took until it answered."""
        began = time.perf_counter()
        quiet = subprocess.DEVNULL
        self._worker = subprocess.Popen([COMMAND, "worker"], env=self.env, cwd=self.home, stdin=quiet, stdout=quiet)
        while time.perf_counter() - began < START_S:
            if self._worker.poll() is not None:
                raise RuntimeError("the worker ended at once")
            try:
                self.health()
                return time.perf_counter() - began
            except OSError:
                time.sleep(0.002)
        raise RuntimeError(f"the worker did not answer within {START_S} s")

    def stop(self) -> None:
        if self._worker and self._worker.poll() is None:
            self._worker.send_signal(signal.SIGTERM)
            try:
                self._worker.wait(20)
            except subprocess.TimeoutExpired:
                self._worker.kill()
                self._worker.wait()
        self._worker = None

    def health(self) -> dict[str, Any]:
        with closing(Wire(self)) as wire:
            found: dict[str, Any] = json.loads(wire.call("GET", "/api/health"))
        return found

    @property
    def pid(self) -> int:
        assert self._worker
        return self._worker.pid

    @property
    def port(self) -> int:
        return int(json.loads((self.data / "worker.json").read_text())["port"])

    @property
    def token(self) -> str:
        return (self.data / "token").read_text()

    def count(self, table: str, where: str = "1") -> int:
        """Rows, read from the database itself."""
        with closing(sqlite3.connect(f"file:{self.data / 'backstory.db'}?mode=ro", uri=True)) as db:
            return int(db.execute(f"SELECT COUNT(*) FROM {table} WHERE {where}").fetchone()[0])  # noqa: S608 - our words

    def settle(self) -> None:
        """Wait until nothing is queued any more."""
        limit = time.monotonic() + SETTLE_S
        while (queue := self.health()["queue"])["queued"] or queue["leased"]:
            if time.monotonic() > limit:
                raise RuntimeError(f"the queue did not empty within {SETTLE_S} s")
            time.sleep(0.1)

    def fill(self, observations: int) -> None:
        """Rounds of work through the routes, until the memory holds so many observations."""
        number = self.count("observations")
        with closing(Wire(self)) as wire:
            for _ in range(observations):
                if self.count("observations") >= observations:
                    return
                for _ in range(max(1, (observations - self.count("observations")) // 4)):
                    number += 1
                    self._round(wire, number)
                self.settle()
        raise RuntimeError(f"only {self.count('observations')} of {observations} observations came about")

    def _round(self, wire: Wire, number: int) -> None:
        """One prompt with a few edits and a test run."""
        session = {"claudeSessionId": f"fill-{number // 5}", "cwd": str(self.project)}
        wire.post("/api/sessions/init", **session, userPrompt=f"Let the basket of shop {number} round prices once")
        for step in range(4):
            name = f"{self.project}/src/basket_{number}_{step}.py"
            edit = {
                "file_path": name,
                "old_string": f"price = {step}",
                "new_string": f"price = round({number}, {step})",
            }
            use = {"tool_name": "Edit", "tool_input": edit, "tool_response": {"filePath": name, "structuredPatch": []}}
            wire.post("/api/sessions/observations", **session, **use)
        run = {"command": "pytest -q tests/test_basket.py"}
        answer = {"stdout": f"{number} passed in 0.{number % 100:02} s", "stderr": ""}
        wire.post("/api/sessions/observations", **session, tool_name="Bash", tool_input=run, tool_response=answer)
        said = f"The basket of shop {number} now rounds once, at the end; all tests pass."
        wire.post("/api/sessions/summarize", **session, last_assistant_message=said)


@contextmanager
def lab() -> Iterator[Lab]:
    """A machine that leaves nothing behind."""
    root = Path(tempfile.mkdtemp(prefix="backstory-bench-"))
    made = Lab(root)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(root, ignore_errors=True)


def ordinary_text(size: int) -> str:
    """Source code to fill a payload with: the standard library's, as far as the cheap look has nothing against it."""
    text = ""
    for file in sorted(Path(os.__file__).parent.glob("*.py")):
        source = file.read_text("utf-8", "replace")
        if source.isascii() and not suspicious(json.dumps(source).encode()):
            text += source
        if len(text) >= size:
            return text[:size]
    return (text * (size // max(1, len(text)) + 1))[:size]


def tool_use(cwd: Path, size: int, planted: str = "") -> bytes:
    """A hook payload of about this size: a file that was read, with something planted in its middle."""
    file = f"{cwd}/src/basket.py"
    payload = {
        "session_id": "bench",
        "transcript_path": "",
        "cwd": str(cwd),
        "permission_mode": "default",
        "hook_event_name": "PostToolUse",
        "tool_name": "Read",
        "tool_input": {"file_path": file},
        "tool_response": {"type": "text", "file": {"filePath": file, "content": ""}},
        "tool_use_id": MARK.decode(),
    }
    room = size - len(json.dumps(payload)) - len(planted)
    text = ordinary_text(room)
    while len(json.dumps(text)) > room:
        text = text[: len(text) - max(1, (len(json.dumps(text)) - room) // 2)]
    content = text[: len(text) // 2] + planted + text[len(text) // 2 :]
    payload["tool_response"] = {"type": "text", "file": {"filePath": file, "content": content}}
    return json.dumps(payload).encode()


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def timed(asked: Sequence[str], ask: Callable[[str], object]) -> list[float]:
    """Seconds for each question; the first few only warm it up."""
    times = []
    for number, query in enumerate(asked):
        began = time.perf_counter()
        ask(query)
        if number >= 5:
            times.append(time.perf_counter() - began)
    return times


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|---{'|--:' * (len(heads) - 1)}|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}" if seconds < 0.1 else f"{seconds * 1000:.0f}"


def say(text: str) -> None:
    """Progress, beside the results."""
    print(f"  {text}", file=sys.stderr, flush=True)


def load() -> str:
    """How busy the machine is otherwise."""
    one, five, _ = os.getloadavg()
    return f"load average {one:.2f} (1 min), {five:.2f} (5 min)"


def machine() -> str:
    """What it was measured on."""
    model = "processor unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return f"{os.cpu_count()} cores ({model}), {platform.system()} {platform.release()}, {versions}"


def interpreter(shim: Path) -> str:
    """The interpreter that a shim runs."""
    words = shlex.split(shim.read_text(), comments=True)
    return words[words.index("exec") + 1]


def end_gently() -> None:
    """A termination signal cleans up as well."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
