"""Orders to forget: several at the same time, one that fails, and what a killed worker leaves of one."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from box import Box

from backstory import ids
from backstory.model import ContentId
from backstory.paths import ABANDONED_S, Paths
from backstory.sessions import lock, session_file
from backstory.sessions.session_file import Message, Metadata, SessionFile
from backstory.settings import Settings
from backstory.store import forget
from backstory.store.db import Store, Tx
from backstory.worker.app import App
from backstory.worker.forgetting import Order
from backstory.worker.jobs.maintenance import Maintenance

ID = "0b0b7d4e-6f0d-4f43-8f83-2f6a5e1c9a10"


@pytest.fixture
def app(store: Store, tmp_path: Path) -> Iterator[App]:
    """A worker on either engine."""
    with (
        mock.patch.object(Path, "home", return_value=tmp_path),
        mock.patch("backstory.worker.app.open_store", return_value=store),
    ):
        yield App(Settings(data_dir=tmp_path / ".backstory", embedder="off"))


def write_session(paths: Paths, text: str) -> Path:
    at = ids.now()
    messages = (Message("user", ({"type": "text", "text": text},), at),)
    session_file.write(paths, SessionFile(ContentId(ID), Metadata("m", "/nowhere", at, at, 1), messages))
    return paths.agent_sessions / ID / "session.json"


def test_files_are_cleaned_although_another_forgetting_finished_the_erasure(app: App) -> None:
    """It read which erasures were open after these rows were deleted, and does not know the words of this one."""
    file = write_session(app.settings.paths, "the heliotrope is here")
    order = Order(matching="heliotrope")

    def finish(tx: Tx) -> None:
        erasure = forget.open_erasure(tx)
        assert erasure
        forget.finish_erasures(tx, erasure)

    async def work() -> bool:
        await app.forgetting._carry_out("0000000000000-0000000000000000", order)
        app.store.write(finish)
        return await app.forgetting._wipe()

    assert asyncio.run(work())
    assert "heliotrope" not in file.read_text()


def test_the_database_is_not_rewritten_again_while_a_file_is_in_use(app: App) -> None:
    """Only the file is left to be cleaned then."""
    paths, scrubbed = app.settings.paths, list[bool]()
    file, scrub = write_session(paths, "the heliotrope is here"), app.store.scrub

    def counted() -> None:
        scrubbed.append(True)
        scrub()

    async def work() -> None:
        with mock.patch.object(app.store, "scrub", counted):
            with lock.hold(paths, ID):
                assert (await app.forgetting.forget(Order(matching="heliotrope")))[1] is False
                assert await app.forgetting._wipe() is False
            assert await app.forgetting._wipe()
        await app.forgetting.job.stop()

    asyncio.run(work())
    assert "heliotrope" not in file.read_text()
    assert len(scrubbed) == 1


def test_an_order_that_fails_does_not_keep_the_worker_from_starting(box: Box) -> None:
    """The job that tries it again is reported, and the others are carried out."""
    folder = box.data / "forgetting"
    folder.mkdir(mode=0o700, parents=True)
    kept = folder / "0000000000000-0000000000000000.json"
    kept.write_text(json.dumps({"observations": {str(2**70): "2020-01-01T00:00:00.000Z"}}))
    box.start()
    assert "job-failing" in box.client.get("/api/health")["problems"]
    assert kept.exists()


def test_what_a_killed_worker_left_of_an_order_is_removed(app: App) -> None:
    """It has the words of `--matching`."""
    folder = app.settings.paths.forgetting
    folder.mkdir(mode=0o700, parents=True)
    left = folder / ".0000000000000-0000000000000000.json.0123456789abcdef.tmp"
    left.write_text('{"matching": "heliotrope"}')
    old = left.stat().st_mtime - ABANDONED_S - 60
    os.utime(left, (old, old))
    Maintenance(app.settings, app.store)._check()
    assert not left.exists()
