"""I12: whatever is wrong around a hook, it exits with 0, in time, and says nothing on its standard error."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from box import Box, until

PACKAGE = Path(__file__).parents[2] / "src" / "backstory"
TOOL = {"session_id": "x", "tool_name": "Read", "tool_use_id": "t1", "tool_input": {}, "tool_response": "text"}
#: Seconds after which a hook hangs. It promises two; a busy machine adds some.
HANGS_S = 30
#: Seconds that a hook promises, and what a busy machine may add.
TOTAL_S = 2 + 6.0


class Bench:
    """A hook whose surroundings can be broken before it is called."""

    def __init__(self, box: Box) -> None:
        self.box = box
        # Called as its script does, but without the script's own `except`, and from outside the data directory.
        program = f"import sys\nsys.path.append({str(PACKAGE)!r})\nimport hook"
        box.shim  # noqa: B018 - makes the data directory
        self.command = [sys.executable, "-I", "-S", "-c", program, str(box.data), "claude-code"]
        self.stdout: int = subprocess.PIPE
        self.ends_input = True

    @contextmanager
    def called(self, event: str) -> Iterator[subprocess.Popen[bytes]]:
        """The hook, which has read its payload."""
        hook = subprocess.Popen(
            [*self.command, event],
            stdin=subprocess.PIPE,
            stdout=self.stdout,
            stderr=subprocess.PIPE,
            env=self.box.env,
        )
        try:
            assert hook.stdin
            with suppress(BrokenPipeError):
                hook.stdin.write(json.dumps(TOOL).encode())
                hook.stdin.flush()
                if self.ends_input:
                    hook.stdin.close()
            yield hook
        finally:
            hook.kill()
            hook.wait()
            for pipe in (hook.stdin, hook.stdout, hook.stderr):
                if pipe:
                    with suppress(BrokenPipeError):
                        pipe.close()


def data_is_a_file(bench: Bench, stack: ExitStack) -> None:
    shutil.rmtree(bench.box.data)
    bench.box.data.write_text("")


def data_has_no_parent(bench: Bench, stack: ExitStack) -> None:
    shutil.rmtree(bench.box.home)


def data_is_a_loop(bench: Bench, stack: ExitStack) -> None:
    shutil.rmtree(bench.box.data)
    bench.box.data.symlink_to(bench.box.data)


def spool_is_a_file(bench: Bench, stack: ExitStack) -> None:
    (bench.box.data / "spool").write_text("")


def spool_leads_nowhere(bench: Bench, stack: ExitStack) -> None:
    (bench.box.data / "spool").symlink_to(bench.box.root / "nowhere" / "spool")


def socket_is_a_file(bench: Bench, stack: ExitStack) -> None:
    (bench.box.data / "worker.sock").write_text("")
    spool_is_a_file(bench, stack)


def output_is_full(bench: Bench, stack: ExitStack) -> None:
    bench.stdout = os.open("/dev/full", os.O_WRONLY)
    stack.callback(os.close, bench.stdout)


def output_has_no_reader(bench: Bench, stack: ExitStack) -> None:
    reader, bench.stdout = os.pipe()
    os.close(reader)
    stack.callback(os.close, bench.stdout)


def output_is_closed(bench: Bench, stack: ExitStack) -> None:
    bench.command = ["sh", "-c", 'exec "$0" "$@" >&-', *bench.command]


def input_is_closed(bench: Bench, stack: ExitStack) -> None:
    bench.command = ["sh", "-c", 'exec "$0" "$@" <&-', *bench.command]


def input_never_ends(bench: Bench, stack: ExitStack) -> None:
    bench.ends_input = False


@contextmanager
def silent_worker(data: Path) -> Iterator[None]:
    """A worker that accepts and never answers: the kernel accepts for a socket that listens."""
    with closing(socket.socket(socket.AF_UNIX)) as server:
        here = Path.cwd()
        os.chdir(data)  # a whole path may be too long for a socket
        try:
            server.bind("worker.sock")
        finally:
            os.chdir(here)
        server.listen()
        yield


def worker_never_answers(bench: Bench, stack: ExitStack) -> None:
    stack.enter_context(silent_worker(bench.box.data))


def worker_never_answers_and_spool_is_a_file(bench: Bench, stack: ExitStack) -> None:
    worker_never_answers(bench, stack)
    spool_is_a_file(bench, stack)


TROUBLE = (
    *(data_is_a_file, data_has_no_parent, data_is_a_loop, spool_is_a_file, spool_leads_nowhere, socket_is_a_file),
    *(output_is_full, output_has_no_reader, output_is_closed, input_is_closed, input_never_ends),
    *(worker_never_answers, worker_never_answers_and_spool_is_a_file),
)


@pytest.mark.parametrize("trouble", TROUBLE, ids=lambda each: str(each.__name__))
@pytest.mark.parametrize("event", ["PostToolUse", "SessionStart", "SessionEnd"])
def test_i12_a_hook_survives(box: Box, trouble: Callable[[Bench, ExitStack], None], event: str) -> None:
    """Its last `except` hides every error from the agent, and its alarm ends every wait."""
    bench = Bench(box)
    (box.data / "bin" / "backstory-worker").unlink()  # it would mend what is broken
    with ExitStack() as stack:
        trouble(bench, stack)
        start = time.monotonic()
        with bench.called(event) as hook:
            status = hook.wait(HANGS_S)
            assert hook.stderr
            assert (status, hook.stderr.read()) == (0, b"")
            assert time.monotonic() - start < TOTAL_S


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_i12_a_hook_that_is_cancelled_spools_its_event(box: Box, ending: signal.Signals) -> None:
    """An agent ends its hooks when its user interrupts it."""
    bench = Bench(box)
    with silent_worker(box.data), bench.called("PostToolUse") as hook:
        # It waits for the worker once it is connected.
        until(lambda: _is_connected(hook.pid), "the hook to wait", 30)
        hook.send_signal(ending)
        assert hook.wait(HANGS_S) == 0
        assert hook.stderr
        assert hook.stderr.read() == b""
    (file,) = box.spooled()
    assert json.loads(file.read_bytes())["tool_use_id"] == "t1"


def _is_connected(process: int) -> bool:
    """Whether a process has a socket: or has gone already, because the wait is short."""
    try:
        return any("socket:" in str(each.readlink()) for each in Path(f"/proc/{process}/fd").iterdir())
    except OSError:
        return True
