"""Runs what takes long in processes of their own: while a large body is cleaned, hooks and `/api/health` are answered.

A thread would not do: one call of `re` or `json` on a large text keeps all other threads waiting. A process starts with
the first such body and ends some seconds after the last, so an idle worker is as small as without.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, Pipe
from typing import Any, TypeVar

from backstory.capture.bodies import SMALL, is_slow
from backstory.errors import BackstoryError, Broken, TooLarge
from backstory.jobs import place_of

log = logging.getLogger(__name__)
T = TypeVar("T")
#: Processes for ordinary work, at most. One that waits for a slow one would delay a hook.
PROCESSES = 3
#: Bytes from which work is done by one process more, one piece after the other.
HUGE = 1 << 20
#: Seconds that a process waits for more work.
IDLE_S = 10.0
#: Seconds of processor time that a piece of work may take. The slowest body that we know takes 8.
LIMIT_S = 60
#: The niceness of a process: the worker goes first.
NICE = 5
#: Processes that are tried for a piece of work.
ATTEMPTS = 2
_COMMAND = "from backstory.capture.processes import serve; serve()"


class _Process:
    """A process that does one piece of work at a time."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except BaseException:
            self._connection.close()
            raise
        finally:
            theirs.close()

    def do(self, request: bytes) -> tuple[Any, BackstoryError | None]:
        """Run a function. Return its result, or its error."""
        self._connection.send_bytes(request)
        result: tuple[Any, BackstoryError | None] = self._connection.recv()
        return result

    def is_up(self) -> bool:
        """Wait until the process is ready. Return False if it could not be started."""
        try:
            return bool(self._connection.recv())
        except (EOFError, OSError):
            return False

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> int:
        """End the process, whatever it does, and return how it ended."""
        self._process.kill()
        return self._process.wait()

    def close(self) -> int:
        status = self.kill()
        self._connection.close()
        return status


class Processes:
    """Processes that start when they are needed."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._turns = {False: asyncio.Semaphore(PROCESSES), True: asyncio.Semaphore(1)}
        self._threads: ThreadPoolExecutor | None = None
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False

    async def read(self, work: Callable[..., T], raw: bytes, *args: Any) -> T:
        """Read a body with a function of a module, here if that takes no time."""
        return await self.run(work, raw, *args, size=len(raw)) if is_slow(raw) else work(raw, *args)

    async def run(self, work: Callable[..., T], *args: Any, size: int) -> T:
        """Run a function of a module with arguments of about `size` bytes. Both can be pickled. A small
        piece of work is done here."""
        if size <= SMALL:
            return work(*args)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(PROCESSES + 1, "backstory-processes")
        loop, is_huge = asyncio.get_running_loop(), size > HUGE
        async with self._turns[is_huge]:
            if self._timer:
                self._timer.cancel()
            try:
                # Memory that another thread allocates is not given back to the system.
                request = pickle.dumps((work, args))
                return await loop.run_in_executor(self._threads, self._run, work, args, request, is_huge)
            finally:
                if self._timer:
                    self._timer.cancel()
                self._timer = loop.call_later(IDLE_S, self._end_idle)

    def _run(self, work: Callable[..., T], args: tuple[Any, ...], request: bytes, is_huge: bool) -> T:
        result: T
        for _ in range(ATTEMPTS):
            process = self._take()
            if self._is_stopping:
                break
            if process is None:
                return work(*args)
            try:
                result, error = process.do(request)
            except (EOFError, OSError):
                if self._close(process) == -signal.SIGPROF or self._is_stopping:
                    break
                continue  # somebody has killed it
            except BaseException:
                self._close(process)
                raise
            if is_huge:
                self._close(process)  # it has grown
            else:
                self._idle.append(process)
            if error:
                raise error
            return result
        raise TooLarge("The body takes too long to read.")

    def _take(self) -> _Process | None:
        """Return a process that is ready. None if none can be started: then this thread does the work."""
        with contextlib.suppress(IndexError):
            while process := self._idle.pop():
                if process.is_alive():
                    return process
                self._close(process)
        with contextlib.suppress(OSError):
            process = _Process()
            self._all.add(process)
            if process.is_up() and not self._is_stopping:  # `stop` may have looked before it was added
                return process
            self._close(process)
            if self._is_stopping:
                return None
        log.warning("no process could be started; a large body is read by the worker itself")
        return None

    def _close(self, process: _Process) -> int:
        self._all.discard(process)
        return process.close()

    def _end_idle(self) -> None:
        while self._idle:
            self._close(self._idle.pop())
        _give_back()

    def stop(self) -> None:
        """End all processes. Work that is under way fails."""
        self._is_stopping = True
        if self._timer:
            self._timer.cancel()
        for process in list(self._all):
            process.kill()
        if self._threads:
            self._threads.shutdown(cancel_futures=True)
        self._end_idle()
        self._reset()


def _give_back() -> None:
    """Give freed memory back to the system. glibc keeps that of large bodies, in case that others follow."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def serve() -> None:
    """Do the work that the worker sends, in this process, until the worker closes the connection or is killed."""
    os.nice(NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # decoded JSON has no cycles, and looking for them takes half of the time
    with Connection(int(sys.argv[1])) as connection, contextlib.suppress(EOFError, OSError):
        connection.send(True)
        while True:
            work, args = connection.recv()
            signal.setitimer(signal.ITIMER_PROF, LIMIT_S)  # its signal ends the process
            reply = _result(work, args)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send(reply)
            del work, args, reply


def _result(work: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, BackstoryError | None]:
    try:
        return work(*args), None
    except BackstoryError as error:
        return None, error
    except Exception as error:
        return None, Broken(f"A large body could not be read: {place_of(error)}.")


#: Those of this worker.
processes = Processes()
