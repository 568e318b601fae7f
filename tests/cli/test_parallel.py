"""Commands that start and stop the worker, run at the same time: none fails, and one worker or none is left."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from pathlib import Path

import pytest
from box import COMMAND, Box

from backstory.paths import Paths
from backstory.worker import process


def together(box: Box, *commands: str) -> list[str]:
    """Run commands at the same time; what those that failed said."""
    runs = [
        subprocess.Popen([COMMAND, command], env=box.env, cwd=box.project, stdout=-1, stderr=-1, text=True)
        for command in commands
    ]
    said = [run.communicate(timeout=120) for run in runs]
    return [out + err for run, (out, err) in zip(runs, said, strict=True) if run.returncode]


def workers(box: Box) -> list[int]:
    """The processes of this home that are workers."""
    mark = f"HOME={box.home}\0".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"worker" in words and mark in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_eight_starts_at_once_all_succeed(box: Box) -> None:
    """All of them find the one worker that came up; then three restarts and three stops do."""
    assert together(box, *["start"] * 8) == []
    health = box.health()
    assert health
    assert workers(box) == [health["pid"]]
    assert together(box, *["restart"] * 3) == []
    after = box.health()
    assert after
    assert workers(box) == [after["pid"]]
    assert after["pid"] != health["pid"]
    assert together(box, *["stop"] * 3) == []
    assert workers(box) == []
    assert not (box.data / "worker.sock").exists()


def test_a_start_waits_for_a_worker_that_comes_up_or_goes_down(box: Box) -> None:
    """Whoever holds the lock and has not said that it serves may end yet: then this one starts its own."""
    paths = Paths(box.data)
    paths.prepare()
    lock = process.Lock(paths.lock)
    run = subprocess.Popen([COMMAND, "start"], env=box.env, cwd=box.project, stdout=-1, stderr=-1)
    with pytest.raises(subprocess.TimeoutExpired):
        run.communicate(timeout=2)
    lock.release()
    assert run.communicate(timeout=120)[1] == b""
    assert run.returncode == 0
    assert box.health()


def test_starts_restarts_and_stops_at_once_leave_a_worker_that_answers_or_none(box: Box) -> None:
    assert together(box, "start", "stop", "restart", "start", "stop", "restart") == []
    found = workers(box)
    assert len(found) <= 1
    health = box.health()
    assert [health["pid"]] == found if health else found == []
    assert together(box, "start") == []
    assert box.health()


def test_a_stop_does_not_take_away_the_socket_of_the_next_worker(running: Box) -> None:
    """What a worker that was killed left is only cleared away while no other worker can start."""
    paths = Paths(running.data)
    running.kill(running.processes[0])
    lock = process.Lock(paths.lock)  # the next worker, between the moment it is asked for and its socket
    process.remove_leftovers(paths)
    assert paths.socket.exists()
    lock.release()
    process.remove_leftovers(paths)
    assert not paths.socket.exists()


def test_a_look_at_the_lock_does_not_keep_a_worker_from_starting(box: Box) -> None:
    """`status` and `start` hold it for an instant to see whether somebody else does."""
    paths = Paths(box.data)
    paths.prepare()
    looking = os.open(paths.lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(looking, fcntl.LOCK_SH)
    timer = threading.Timer(0.2, os.close, (looking,))
    timer.start()
    try:
        process.Lock(paths.lock).release()
    finally:
        timer.join()
