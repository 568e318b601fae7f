"""A machine of one's own for a test: HOME, data directory, the real command, the real hook, the real worker."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import preloaded
import psycopg
from preloaded import Process
from psycopg.rows import dict_row

from backstory.client import Client
from backstory.store.packing import unpack

#: The command, for tests that need a process of its own.
COMMAND = preloaded.COMMAND


def until(check: Callable[[], Any], what: str = "it", seconds: float = 120) -> Any:
    """Wait for something that another process does."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if found := check():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s for {what}")


def rows_of(url: str, sql: str, *values: Any) -> list[dict[str, Any]]:
    """Rows of a PostgreSQL database, to look into."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        query = sql.replace("%", "%%").replace("?", "%s") if values else sql
        return connection.execute(query, values or None).fetchall()


@dataclass
class Answer:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Box:
    """One user's machine."""

    root: Path
    settings: dict[str, str] = field(default_factory=dict)
    #: Values that are no settings (`settings.Tuning`), so that tests need not wait. A busy machine takes up to a
    #: second between a round's last tool use and its end: with less, the round is observed twice.
    tuning: dict[str, float | str] = field(
        default_factory=lambda: {"settle_seconds": 1.0, "retry_seconds": 0.05, "prompt_seconds": 5}
    )
    processes: list[Process | subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def data(self) -> Path:
        return self.home / ".backstory"

    @property
    def project(self) -> Path:
        return self.root / "shop"

    @property
    def env(self) -> dict[str, str]:
        tuning = " ".join(f"{name}={value}" for name, value in self.tuning.items())
        quick = {"BACKSTORY_PORT": "0", "BACKSTORY_TESTING": tuning}
        # Loading what makes vectors costs more than most tests: those that are about them ask for it (`meaning`).
        quick["BACKSTORY_EMBEDDER"] = "off"
        return (
            {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", "TZ": "UTC"} | quick | self.settings
        )

    def cli(
        self, *words: str, check: bool = True, cwd: Path | None = None, input: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `backstory WORDS`."""
        run = preloaded.run(words, self.env, cwd or self.project, input)
        assert not check or run.returncode == 0, run.stderr
        return run

    def start(self) -> Process | subprocess.Popen[bytes]:
        """The worker, in the foreground of this test, so that it can be killed by its own id."""
        worker = self._launch()

        def is_up() -> Any:
            nonlocal worker
            # 0 means that another one has the lock: a hook may have started it, or it was killed and is not gone yet.
            if worker.poll() == 0 and not self.health():
                worker = self._launch()
            return self.health() or worker.poll()

        until(is_up, "the worker to start")
        if worker.poll() and worker.stderr:
            if isinstance(worker, Process):
                worker.stderr.seek(0)
            raise AssertionError(worker.stderr.read().decode())
        return worker

    def _launch(self) -> Process | subprocess.Popen[bytes]:
        worker = preloaded.start(["worker"], self.env, self.home)
        self.processes.append(worker)
        return worker

    def health(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.client.get("/api/health")
        except Exception:
            return None
        return found

    def kill(self, worker: Process | subprocess.Popen[bytes]) -> None:
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def stop(self, worker: Process | subprocess.Popen[bytes]) -> None:
        worker.send_signal(signal.SIGTERM)
        worker.wait(20)

    def clean_up(self) -> None:
        for worker in self.processes:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
            if worker.stderr:
                worker.stderr.close()
        # A worker that a hook started may not have its lock yet, but it has this home.
        mark = f"HOME={self.home}\0".encode()
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # gone by now, or not ours
                if process.name.isdigit() and mark in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)

    @property
    def client(self) -> Client:
        return Client(self.data / "worker.sock", timeout=120)

    @property
    def port(self) -> int:
        return int(json.loads((self.data / "worker.json").read_text())["port"])

    @property
    def token(self) -> str:
        return (self.data / "token").read_text()

    def http(
        self,
        method: str,
        route: str,
        body: bytes | dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        token: bool = True,
    ) -> Answer:
        """A request over TCP, as a stranger's program or a browser would send it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        given = {"Authorization": f"Bearer {self.token}"} if token else {}
        raw = json.dumps(body).encode() if isinstance(body, dict) else body
        try:
            connection.request(method, route, raw, given | (headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    @property
    def shim(self) -> Path:
        """The shim that an agent's settings name."""
        path = self.data / "bin" / "backstory-hook"
        if not path.exists():
            self.cli("install", "--agent", "claude-code")
        return path

    def hook(
        self, event: str, payload: dict[str, Any] | bytes, agent: str = "claude-code"
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the hook as an agent does."""
        raw = payload if isinstance(payload, bytes) else json.dumps({"cwd": str(self.project)} | payload).encode()
        return subprocess.run([self.shim, agent, event], input=raw, env=self.env, capture_output=True, timeout=120)

    def told(self, session: str = "next", source: str = "startup") -> str:
        """The context that a session gets."""
        answer = self.hook("SessionStart", {"session_id": session, "source": source})
        output = json.loads(answer.stdout or b"{}").get("hookSpecificOutput", {})
        return str(output.get("additionalContext", ""))

    def settle(self) -> None:
        """Wait until nothing waits any more."""

        def quiet() -> bool:
            # The spool first: an event that is taken in between is in the queue by then.
            is_spooled, health = self.spooled(), self.health()
            queue = health["queue"] if health else {"queued": 1}
            return not is_spooled and not queue["queued"] and not queue["leased"]

        until(quiet, "the queue to be empty", 90)

    def spooled(self) -> list[Path]:
        return sorted((self.data / "spool").glob("[!.]*.json")) if (self.data / "spool").is_dir() else []

    @contextmanager
    def db(self) -> Iterator[sqlite3.Connection]:
        """The database, to look into."""
        connection = sqlite3.connect(f"file:{self.data / 'backstory.db'}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            yield connection
        finally:
            connection.close()

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        if url := self.settings.get("BACKSTORY_DATABASE_URL"):
            return rows_of(url, sql, *values)
        with self.db() as connection:
            found = [dict(row) for row in connection.execute(sql, values)]
            return [row | {"payload": unpack(row["payload"])} if "payload" in row else row for row in found]

    def dump(self) -> dict[str, list[dict[str, Any]]]:
        """Everything that is stored."""
        tables = ["sdk_sessions", "session_moves", "user_prompts", "events", "observations", "observation_events"]
        tables += ["session_summaries", "words", "word_rows", "sessions", "session_history", "schema_versions"]
        tables += ["turns", "chunks", "agent_sessions", "groups", "archives"]
        return {name: self.rows(f"SELECT * FROM {name} ORDER BY 1, 2") for name in tables}  # noqa: S608 - our own names
