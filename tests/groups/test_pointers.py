"""The pointer of a group: who moves it, who cannot any more, and that no conversation is lost on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from group_desk import Desk, run, session_id

from backstory.errors import BackstoryError, BadInput, NotFound, PointerMoved
from backstory.groups.pointers import Pointer
from backstory.store import groups
from backstory.store.db import Store


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Desk:
    made = Desk(store, tmp_path / "data")
    made.data.mkdir()
    made.create("family")
    return made


def test_the_four_lifecycles(desk: Desk) -> None:
    """New, active, clear, resume: the pointer, the history and the archives of each step."""

    async def work() -> None:
        new = await desk.pointers.get("family")
        assert new == Pointer(None, 0)
        first, second = session_id(1), session_id(2)
        assert await desk.pointers.set("family", first, new.generation)
        desk.talk("family", 1, "Plan a trip to Japan", "Here are some suggestions")
        active = await desk.pointers.get("family")
        assert active.session_id == first
        assert await desk.pointers.set("family", first, active.generation)  # each turn reports its session again

        entry = await desk.pointers.clear("family", "Travel Planning")
        assert (entry.session_id, entry.name, entry.transcript_available) == (first, "Travel Planning", True)
        assert entry.created_at == "2026-01-05T12:00:01.000Z"
        assert entry.archived_at > entry.created_at
        cleared = await desk.pointers.get("family")
        assert cleared.session_id is None
        assert cleared.generation > active.generation
        assert [name[11:] for name in desk.archived("family")] == ["travel-planning.md"]

        assert await desk.pointers.set("family", second, cleared.generation)
        desk.talk("family", 2, "Do my taxes", "Which year?")
        resumed = await desk.pointers.resume("family", entry.id)
        assert resumed.session_id == first
        assert await desk.pointers.get("family") == resumed
        (left,) = await desk.pointers.history("family")
        assert (left.session_id, left.name) == (second, "Do my taxes")
        assert sorted(name[11:] for name in desk.archived("family")) == ["do-my-taxes.md", "travel-planning.md"]

    run(work())


def test_another_worker_finds_the_same(desk: Desk) -> None:
    """What is in memory is in the store."""

    async def work() -> None:
        await desk.pointers.set("family", session_id(1), 0)
        desk.talk("family", 1)
        await desk.pointers.clear("family", "One")
        after = Desk(desk.store, desk.data).pointers
        assert await after.get("family") == await desk.pointers.get("family")
        assert await after.history("family") == await desk.pointers.history("family")

    run(work())


def test_a_late_answer_does_not_bring_a_cleared_session_back(desk: Desk) -> None:
    async def work() -> None:
        spawned = await desk.pointers.get("family")
        await desk.pointers.set("family", session_id(1), spawned.generation)
        await desk.pointers.clear("family")
        assert not await desk.pointers.set("family", session_id(1), spawned.generation)
        assert (await desk.pointers.get("family")).session_id is None
        # Nor through another process that has the old pointer in memory.
        other = Desk(desk.store, desk.data).pointers
        seen = await other.get("family")
        await desk.pointers.set("family", session_id(2), seen.generation)
        await desk.pointers.clear("family")
        assert not await other.set("family", session_id(2), seen.generation)
        assert (await other.get("family")).session_id is None

    run(work())


def test_of_two_resumes_at_once_one_wins_and_one_is_told(desk: Desk) -> None:
    async def work() -> None:
        for number in (1, 2, 3):
            await desk.pointers.set("family", session_id(number), (await desk.pointers.get("family")).generation)
            desk.talk("family", number)
            if number < 3:
                await desk.pointers.clear("family", f"Talk {number}")
        entries = await desk.pointers.history("family")
        both = [desk.pointers.resume("family", entry.id) for entry in entries]
        told = await asyncio.gather(*both, return_exceptions=True)
        assert sorted(type(each).__name__ for each in told) == ["Pointer", "PointerMoved"]
        (won,) = [each for each in told if isinstance(each, Pointer)]
        left = {entry.session_id for entry in await desk.pointers.history("family")}
        assert left | {won.session_id} == {session_id(1), session_id(2), session_id(3)}
        assert len(left) == 2

    run(work())


def test_a_session_that_is_replaced_goes_into_the_history(desk: Desk) -> None:
    """A run that goes on under another id, because its transcript was lost or it was cleared inside."""

    async def work() -> None:
        await desk.pointers.set("family", session_id(1), 0)
        assert await desk.pointers.set("family", session_id(2), 0)
        (entry,) = await desk.pointers.history("family")
        assert (entry.session_id, entry.transcript_available) == (session_id(1), False)
        assert not desk.archived("family")
        await desk.pointers.resume("family", entry.id)
        assert [each.session_id for each in await desk.pointers.history("family")] == [session_id(2)]

    run(work())


def test_a_resume_that_is_not_possible_changes_nothing(desk: Desk) -> None:
    """An unknown number, and one of another group."""

    async def work() -> None:
        desk.create("work")
        await desk.pointers.set("work", session_id(9), 0)
        entry = await desk.pointers.clear("work", "Theirs")
        await desk.pointers.set("family", session_id(1), 0)
        before = (await desk.pointers.get("family"), await desk.pointers.history("work"))
        for number in (entry.id, entry.id + 1000):
            with pytest.raises(NotFound):
                await desk.pointers.resume("family", number, "Saved")
        assert (await desk.pointers.get("family"), await desk.pointers.history("work")) == before
        assert not await desk.pointers.history("family")
        # Nor can a run claim a session that another group has.
        assert not await desk.pointers.set("family", session_id(9), before[0].generation)
        with pytest.raises(PointerMoved):
            await desk.pointers.resume("work", entry.id, generation=0)

    run(work())


def test_groups_that_are_not_there(desk: Desk) -> None:
    async def work() -> None:
        with pytest.raises(NotFound, match="There is no group nobody"):
            await desk.pointers.get("nobody")
        with pytest.raises(NotFound, match="no active session"):
            await desk.pointers.clear("family")
        for name in ("../x", "GLOBAL", "x" * 65, "family "):
            with pytest.raises(BadInput):
                await desk.pointers.get(name)
            with pytest.raises(BadInput):
                await desk.pointers.history(name)
        with pytest.raises(BackstoryError, match="There is a group family already"):
            desk.create("Family")
        with pytest.raises(BadInput, match="There is a group family already"):
            desk.create("family")
        assert (await desk.pointers.get("main")).session_id is None  # it needs no creation

    run(work())


def test_a_deleted_group_can_be_created_again(desk: Desk) -> None:
    """Empty, in another case if wanted. What was begun before cannot move its pointer."""

    async def work() -> None:
        await desk.pointers.set("family", session_id(1), 0)
        await desk.pointers.clear("family", "One")
        seen = await desk.pointers.get("family")
        desk.store.write(lambda tx: groups.delete(tx, "family"))
        desk.pointers.forget("family")
        with pytest.raises(NotFound):
            await desk.pointers.get("family")
        desk.create("Family")
        assert await desk.pointers.history("Family") == []
        assert (await desk.pointers.get("Family")).generation > seen.generation
        assert not await desk.pointers.set("Family", session_id(1), seen.generation)

    run(work())
