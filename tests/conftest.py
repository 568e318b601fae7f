"""What every test may ask for."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box
from engines import Opener
from hypothesis import settings
from postgres import Server

from backstory.store.db import Store
from backstory.store.migrate import migrate
from backstory.store.postgres import PostgresStore
from backstory.store.sqlite import SqliteStore

# The same examples every time, so that a landing never hangs on a throw of the dice; `make soak` throws them.
settings.register_profile("steady", derandomize=True, database=None, deadline=None)
settings.register_profile("deep", max_examples=5000, database=None, deadline=None)
settings.load_profile("steady")

# A shell ignores Ctrl-C for what it runs in the background, and every program that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: Characters of the directory for temporary files. The path of a socket below it has 107 at most.
LONGEST_TMPDIR = 20
if len(tempfile.gettempdir()) > LONGEST_TMPDIR and os.access("/tmp", os.W_OK):
    os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"

# PostgreSQL does not run as root: its package calls `useradd`, which a short PATH does not reach.
os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """A machine of its own, with nothing running."""
    machine = Box(tmp_path)
    machine.home.mkdir()
    machine.project.mkdir()
    yield machine
    machine.clean_up()


@pytest.fixture
def meaning(box: Box) -> None:
    """With vectors, as everybody has them: to be asked for before `running`."""
    box.settings["BACKSTORY_EMBEDDER"] = "static"


@pytest.fixture
def running(box: Box) -> Box:
    """The same with the worker up."""
    box.start()
    return box


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server, started for the first test that asks."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def database_url(postgres: Server) -> Iterator[str]:
    """An empty database in it."""
    url = postgres.make()
    yield url
    postgres.drop(url)


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    """The store contract holds on both: a test that asks for `store` runs twice."""
    return str(request.param)


@pytest.fixture
def open_again(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Opener]:
    """The database of this test, as often as it is asked for."""
    opened: list[Store] = []
    url = request.getfixturevalue("database_url") if engine == "postgres" else ""

    def opener() -> Store:
        opened.append(PostgresStore(url, tmp_path) if url else SqliteStore(tmp_path / "backstory.db"))
        return opened[-1]

    yield opener
    for store in opened:
        store.close()


@pytest.fixture
def store(open_again: Opener) -> Store:
    """An open store at this version's schema."""
    opened = open_again()
    migrate(opened)
    return opened
