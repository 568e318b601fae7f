"""Runs `backstory` in forks of a process that has imported it, because importing costs more than most tests."""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import posix
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

#: What commands load, beside their own modules. Nothing here may start a thread: a fork would not have it.
MODULES = (
    *("backstory.cli.show", "backstory.cli.spinner", "backstory.worker.serve", "backstory.worker.app"),
    *("backstory.store.sqlite", "backstory.store.postgres", "backstory.observe.offline.select"),
    *("backstory.observe.offline.summary", "uvicorn.loops.asyncio", "uvicorn.lifespan.on"),
)
COMMAND = Path(sys.executable).parent / "backstory"
#: Characters of arguments, at most. Longer ones are passed in the ordinary way.
MAX_ARGUMENTS = 20_000


class Process:
    """A command that runs in a fork. It has the methods of `subprocess.Popen` that tests use."""

    def __init__(self, report: socket.socket, stderr: IO[bytes] | None) -> None:
        self._report, self.stderr = report, stderr
        self.pid = int.from_bytes(report.recv(4), "big")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._report], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = int.from_bytes(self._report.recv(4), "big", signed=True)
            self._report.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Preloaded:
    """The process that forks. Every process of pytest has one, from the first command on."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * MAX_ARGUMENTS)
        with theirs:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(descriptor)], pass_fds=[descriptor], env={"LANG": "C.UTF-8"}
            )
        self._lock = threading.Lock()
        atexit.register(self._end)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()

    def start(self, request: bytes, stdio: Sequence[int], stderr: IO[bytes] | None = None) -> Process:
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            socket.send_fds(self._socket, [request], [*stdio, theirs.fileno()])
        return Process(ours, stderr)


_preloaded: dict[int, _Preloaded] = {}
_starting = threading.Lock()


def _start(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, stdio: Sequence[int], stderr: IO[bytes] | None
) -> Process:
    request = json.dumps({"words": [str(word) for word in words], "env": dict(env), "cwd": str(cwd)}).encode()
    with _starting:
        if os.getpid() not in _preloaded:
            _preloaded[os.getpid()] = _Preloaded()
    return _preloaded[os.getpid()].start(request, stdio, stderr)


def _is_forkable(words: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether a fork is the same as a new process. `PYTHONPATH` and its like are read when Python starts."""
    return sum(map(len, words)) <= MAX_ARGUMENTS and not any(name.startswith("PYTHON") for name in env)


def start(words: Sequence[str], env: Mapping[str, str], cwd: Path) -> Process | subprocess.Popen[bytes]:
    """Start `backstory WORDS`. What it prints is thrown away; its errors are in `stderr`."""
    if not _is_forkable(words, env):
        quiet = subprocess.DEVNULL
        command = [str(COMMAND), *words]
        return subprocess.Popen(command, env=env, cwd=cwd, stdin=quiet, stdout=quiet, stderr=subprocess.PIPE)
    stderr = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    with Path(os.devnull).open("r+b") as nothing:
        return _start(words, env, cwd, [nothing.fileno(), nothing.fileno(), stderr.fileno()], stderr)


def run(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, given: str = "", timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run `backstory WORDS`, and return what it printed."""
    if not _is_forkable(words, env):
        command = [str(COMMAND), *words]
        return subprocess.run(command, env=env, cwd=cwd, input=given, capture_output=True, text=True, timeout=timeout)
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(given.encode())
        stdin.seek(0)
        process = _start(words, env, cwd, [stdin.fileno(), stdout.fileno(), stderr.fileno()], None)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        printed = []
        for file in (stdout, stderr):
            file.seek(0)
            printed.append(file.read().decode().replace("\r\n", "\n"))
        return subprocess.CompletedProcess(["backstory", *words], code, *printed)


def _serve(requests: socket.socket) -> Mapping[str, Any] | None:
    """Fork for each request, and report the id of the fork and how it ended. Return in a fork, with its request."""
    reports: dict[int, socket.socket] = {}
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _reap(reports)
        if requests in ready:
            raw, descriptors, _, _ = socket.recv_fds(requests, 8 * MAX_ARGUMENTS, 4)
            if not raw:
                return None
            *stdio, report = descriptors
            if pid := os.fork():
                reports[pid] = socket.socket(fileno=report)
                reports[pid].send(pid.to_bytes(4, "big"))
                for descriptor in stdio:
                    os.close(descriptor)
                continue
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for one in (woken, wake, *reports.values()):
                one.close()
            os.close(report)
            for number, descriptor in enumerate(stdio):
                os.dup2(descriptor, number)
                os.close(descriptor)
            request: dict[str, Any] = json.loads(raw)
            return request


def _reap(reports: dict[int, socket.socket]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        with contextlib.suppress(OSError), reports.pop(pid) as report:
            report.send(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))


def _become(request: Mapping[str, Any]) -> None:
    """Take over environment, directory and arguments of a command."""
    os.environ.clear()
    os.environ.update(request["env"])
    posix.environ.clear()
    posix.environ.update({os.fsencode(name): os.fsencode(value) for name, value in request["env"].items()})
    time.tzset()
    os.chdir(request["cwd"])
    sys.argv[1:] = request["words"]


def _main(descriptor: int) -> None:
    commands = import_module("backstory.cli.main")
    for module in (*MODULES, *(f"backstory.cli.{noun}" for noun in commands.NOUNS)):
        import_module(module)
    gc.freeze()
    with socket.socket(fileno=descriptor) as requests:
        request = _serve(requests)
    if request:
        _become(request)
        commands.main()


if __name__ == "__main__":
    _main(int(sys.argv[1]))
