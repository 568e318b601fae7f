"""The spool: an entry that can't be taken in is never in the way of the others."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory import ids
from backstory.capture import bodies
from backstory.capture.spool import TURN_S, Spool
from backstory.cli.doctor import files
from backstory.cli.doctor.finding import Machine
from backstory.errors import StoreUnavailable
from backstory.paths import Paths
from backstory.settings import Settings

NAME = "{:013x}-0123456789abcdef.claude-code.PostToolUse.json"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(tmp_path / "data")
    found.spool.mkdir(parents=True, mode=0o700)
    return found


def good(paths: Paths, number: int) -> str:
    (paths.spool / NAME.format(number)).write_text(json.dumps({"session_id": f"s{number}", "tool_name": "T"}))
    return f"s{number}"


def names(folder: Path) -> list[str]:
    """The entries of a folder, without the hooks' own count."""
    return sorted(file.name for file in folder.glob("[!.]*.json"))


def foreign(path: Path) -> None:
    """A file that we may not use: another user's, or, if we can't make one, one that we can't read."""
    path.write_text("{}")
    if os.getuid() == 0:
        os.chown(path, 65534, 65534)
    else:
        path.chmod(0)


ODD: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a directory": lambda path: path.mkdir(),
    "a directory with something in it": lambda path: (path / "x").mkdir(parents=True),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to a file": lambda path: path.symlink_to(Path(__file__)),
    "another user's": foreign,
    "nested too deeply": lambda path: path.write_text('{"session_id": ' + "[" * 9999 + "]" * 9999 + "}"),
    "too large": lambda path: path.write_bytes(bytes(17 << 20)),
}


class Delivered:
    """Stands where events are stored."""

    def __init__(self, failing: dict[str, Exception] | None = None) -> None:
        self.sessions: list[str] = []
        self._failing = failing or {}

    async def __call__(self, agent: str, event: str, raw: bytes, event_id: str) -> None:
        report, _ = bodies.report(raw, agent, event, event_id, ids.now())
        assert report
        session = report.content_id
        if session in self._failing:
            raise self._failing[session]
        event_id.encode()  # as a database would
        self.sessions.append(session)


def drain(paths: Paths, delivered: Delivered) -> int:
    return asyncio.run(Spool(paths, delivered, asyncio.Event()).drain())


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_entry_is_set_aside_and_the_others_are_taken_in(
    paths: Paths, odd: str, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = [good(paths, 1), good(paths, 3)]
    ODD[odd](paths.spool / NAME.format(2))
    delivered = Delivered()
    assert drain(paths, delivered) == 2
    assert delivered.sessions == wanted
    assert names(paths.spool) == []
    assert names(paths.rejected) == [NAME.format(2)]
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1
    (told,) = files.rejected(scene(paths))
    assert told.name == "spool-rejected"


@pytest.mark.parametrize(
    "name", [b"\xff\xfe.json", b"a\nb.claude-code.Stop.json", b"1-\xff.claude-code.Stop.json", b"*.json"]
)
def test_a_name_with_odd_bytes_is_set_aside_and_not_logged(
    paths: Paths, name: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = [good(paths, 1)]
    (paths.spool / os.fsdecode(name)).write_text('{"session_id": "odd"}')
    delivered = Delivered()
    drain(paths, delivered)
    assert set(delivered.sessions) <= {*wanted, "odd"}
    assert wanted[0] in delivered.sessions
    assert names(paths.spool) == []
    assert "\n" not in caplog.text.strip()
    caplog.text.encode()


@pytest.mark.parametrize("odd", ["a pipe", "a link to itself", "another user's"])
def test_an_entry_that_can_not_be_moved_is_passed_over_and_named(
    paths: Paths, odd: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Logged once, and hooks' count of what they spooled begins again although it stays."""
    paths.rejected.write_text("not a folder")
    ODD[odd](paths.spool / NAME.format(1))
    wanted = [good(paths, 2)]
    (paths.spool / ".size").write_bytes(b"x" * 1000)
    delivered = Delivered()
    spool = Spool(paths, delivered, asyncio.Event())
    assert asyncio.run(spool.drain()) == 1
    assert asyncio.run(spool.drain()) == 0
    assert delivered.sessions == wanted
    assert (paths.spool / ".size").read_bytes() == b""
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1
    (told,) = files.unusable(scene(paths))
    assert told.name == "spool-unusable"
    assert NAME.format(1) in told.says


def test_an_event_that_fails_for_a_mistake_of_ours_is_set_aside(paths: Paths) -> None:
    wanted = [good(paths, 1), good(paths, 2), good(paths, 3)]
    delivered = Delivered({"s1": RuntimeError("x"), "s2": KeyError("x")})
    drain(paths, delivered)
    assert delivered.sessions == wanted[2:]
    assert names(paths.rejected) == [NAME.format(1), NAME.format(2)]


def test_an_event_that_fails_for_want_of_something_stays_and_the_others_are_taken_in(paths: Paths) -> None:
    good(paths, 1)
    wanted = [good(paths, 2)]
    delivered = Delivered({"s1": OSError(24, "Too many open files")})
    drain(paths, delivered)
    assert delivered.sessions == wanted
    assert names(paths.spool) == [NAME.format(1)]
    assert drain(paths, Delivered()) == 1


async def in_turn(spool: Spool, number: int) -> None:
    """Wait for the turn of an event while the spool is watched."""
    spool.job.start()
    try:
        await spool.wait_turn(NAME.format(number))
    finally:
        await spool.job.stop()


def test_an_event_waits_for_those_before_it_and_not_for_those_after(paths: Paths) -> None:
    wanted, delivered = [good(paths, 1), good(paths, 2)], Delivered()
    asyncio.run(in_turn(Spool(paths, delivered, asyncio.Event()), 3))
    assert delivered.sessions == wanted
    good(paths, 5)
    asyncio.run(Spool(paths, Delivered(), asyncio.Event()).wait_turn(NAME.format(4)))  # nobody reads this spool


def test_an_event_does_not_wait_for_what_stays_in_the_spool(paths: Paths) -> None:
    good(paths, 1)
    delivered = Delivered({"s1": OSError(24, "Too many open files")})
    spool = Spool(paths, delivered, asyncio.Event())
    asyncio.run(spool.drain())
    asyncio.run(spool.wait_turn(NAME.format(2)))


def test_an_event_that_waits_too_long_is_refused_so_that_its_hook_spools_it(paths: Paths) -> None:
    good(paths, 1)
    spool = Spool(paths, Delivered(), asyncio.Event())
    with pytest.raises(StoreUnavailable):
        asyncio.run(spool.wait_turn(NAME.format(2)))

    async def refuse_many() -> None:
        async with asyncio.timeout(TURN_S * 50):  # 1,000 waits would be far beyond it
            for number in range(3, 1003):
                with pytest.raises(StoreUnavailable):
                    await spool.wait_turn(NAME.format(number))

    asyncio.run(refuse_many())


def test_forgetting_is_not_held_up_by_what_lies_there(paths: Paths) -> None:
    paths.rejected.mkdir()
    for number, make in enumerate(ODD.values()):
        make(paths.rejected / NAME.format(number))
    (paths.rejected / "x.json").write_text('{"session_id": "forgotten"}')
    (paths.rejected / os.fsdecode(b"\xff")).write_text("forgotten")
    assert Spool(paths, Delivered(), asyncio.Event()).forget({"forgotten"}) == 2


def test_doctor_is_not_held_up_by_what_lies_there(paths: Paths) -> None:
    for number, make in enumerate(ODD.values()):
        make(paths.spool / NAME.format(number))
    assert list(files.spool(scene(paths))) == []
    (told,) = files.unusable(scene(paths))
    assert "8 entries" in told.says


@pytest.mark.parametrize("text", ["", " \n", "not JSON", "{", "[]", "\xff"])
def test_an_entry_that_holds_no_event_is_deleted(paths: Paths, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """No worker will ever take it in: somebody called the hook by hand, or an agent was killed while it wrote."""
    wanted = [good(paths, 1), good(paths, 3)]
    (paths.spool / NAME.format(2)).write_text(text, "latin-1")
    delivered = Delivered()
    assert drain(paths, delivered) == 2
    assert delivered.sessions == wanted
    assert not paths.rejected.exists() and names(paths.spool) == []
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1


def scene(paths: Paths) -> Machine:
    return Machine(Settings(data_dir=paths.data), None, None, None, {})
