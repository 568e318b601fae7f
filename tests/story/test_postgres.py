"""A team's day: the spine's stories once more with PostgreSQL behind the worker, and what only a server can do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from box import Box, until
from postgres import Server
from shared_box import started
from test_kill import nothing_is_lost, test_i9_at_full_size  # noqa: F401 - the same, on this file's `box`
from test_spine import (  # noqa: F401 - each runs here again, on this file's `box`
    after_replay,
    test_a_known_prompt_number_changes_nothing_and_an_absent_one_is_the_next,
    test_compaction_gets_a_shorter_context,
    test_i1_no_row_of_one_session_is_seen_under_another,
    test_i5_two_hundred_prompts_at_once_are_numbered_one_to_two_hundred,
    test_i15_rendering_context_writes_nothing,
    test_session_end_never_creates_a_session,
    test_the_sql_of_the_session_id_documents_runs_as_it_stands,
    test_the_tool_uses_of_a_private_round_are_not_kept,
    test_what_happens_in_one_session_is_known_in_the_next,
)


@pytest.fixture
def box(box: Box, database_url: str) -> Box:
    """The same machine, with its memory in PostgreSQL."""
    box.settings["BACKSTORY_DATABASE_URL"] = database_url
    return box


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Box]:
    """A worker that remembers the recorded session there."""
    url = postgres.make()
    yield from after_replay(Box(tmp_path_factory.mktemp("replayed"), {"BACKSTORY_DATABASE_URL": url}))
    postgres.drop(url)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Box]:
    """A worker that the tests of this file share."""
    url = postgres.make()
    yield from started(Box(tmp_path_factory.mktemp("shared"), {"BACKSTORY_DATABASE_URL": url}))
    postgres.drop(url)


def observe(box: Box, session: str, step: int) -> int:
    """A tool use over the socket; the status of the answer."""
    body = {
        "claudeSessionId": session,
        "tool_name": "Bash",
        "tool_use_id": f"{session}-{step}",
        "tool_input": {"command": f"make step-{step}"},
        "tool_response": f"{session} step {step}",
        "project": "shop",
    }
    return box.http("POST", "/api/sessions/observations", body).status


def test_it_is_postgresql_and_no_file(replayed: Box) -> None:
    """Health says so, search finds what was observed, and there is no SQLite database."""
    running = replayed
    assert running.health()["store"] == "postgres"  # type: ignore[index]
    assert "cart" in running.cli("search", "discount code").stdout
    assert running.cli("search", "zebra").returncode == 0
    assert not (running.data / "backstory.db").exists()
    assert "postgresql://" in running.cli("status").stdout


@pytest.mark.timeout(240)
def test_i9_kill_9_at_any_point_loses_no_accepted_event(box: Box) -> None:
    """Two hundred events from sixteen sessions, two kills and more: each is stored once and observed once."""
    nothing_is_lost(box, events=208, kills=2)


@pytest.mark.timeout(240)
def test_two_workers_on_one_database_share_the_work(box: Box, tmp_path: Path) -> None:
    """Two machines, one memory: both take events of the same sessions in, and each event is observed once."""
    other = Box(tmp_path / "other", dict(box.settings))
    other.home.mkdir(parents=True)
    other.project.mkdir()
    try:
        with ThreadPoolExecutor(2) as starting:
            list(starting.map(Box.start, (box, other)))
        with ThreadPoolExecutor(8) as pool:
            sent = list(
                pool.map(lambda n: observe((box, other)[n % 2], f"s{n % 8}", n // 8), range(160))  # both, by turns
            )
        assert set(sent) == {202}
        box.settle()
        rows = box.rows("SELECT status, attempts, observed_at FROM events WHERE kind = 'tool'")
        assert len(rows) == 160
        assert {(row["status"], row["attempts"]) for row in rows} == {("done", 1)}
        doubled = box.rows("SELECT event_id FROM observation_events GROUP BY event_id HAVING COUNT(*) > 8")
        assert doubled == []
        moves = box.rows("SELECT session_id FROM session_moves WHERE cause = 'start'")
        assert len(moves) == len({move["session_id"] for move in moves}) == 8
        reply = "Each step takes longer because the pool has only two connections."
        box.http("POST", "/api/sessions/summarize", {"claudeSessionId": "s1", "last_assistant_message": reply})
        box.settle()
        assert other.client.get("/api/search", query="connections", limit=9)["items"]
    finally:
        other.clean_up()


def test_a_server_that_goes_away_costs_nothing_but_time(running: Box, postgres: Server) -> None:
    """503 and the spool while it is gone; what was spooled is taken in when it is back, without a restart."""
    assert observe(running, "s", 1) == 202
    running.settle()
    postgres.stop()
    try:
        assert observe(running, "s", 2) == 503
        assert running.health()["status"] == "degraded"  # type: ignore[index]
        answer = running.hook("UserPromptSubmit", {"session_id": "s", "prompt": "kept in the spool"})
        assert (answer.returncode, len(running.spooled())) == (0, 1)
        assert running.told() == ""
    finally:
        postgres.start()
    until(lambda: not running.spooled(), "the spool to be taken in")
    assert running.rows("SELECT prompt FROM user_prompts") == [{"prompt": "kept in the spool"}]
    assert observe(running, "s", 3) == 202
    running.settle()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://ann:hush@127.0.0.1:1/team", "cannot be reached"),
        ("postgresql://ann:hush@127.0.0.1:none/team", "invalid integer value"),
        ("mysql://ann:hush@127.0.0.1/team", "not an address"),
    ],
)
def test_a_bad_address_is_one_clear_sentence_without_the_password(box: Box, url: str, said: str) -> None:
    """In the foreground and in the background; no settings, status or log shows the password either."""
    box.settings["BACKSTORY_DATABASE_URL"] = url
    shown = []
    is_first = "cannot" in said
    for command in ("worker", "start") if is_first else ("worker",):
        failed = box.cli(command, check=False)
        assert failed.returncode == 1
        assert said in failed.stderr and "Traceback" not in failed.stderr
        assert len(failed.stderr.strip().splitlines()) <= 2
        shown.append(failed.stderr)
    box.cli("config", "set", "database_url", url)
    if is_first:
        for words in (("config",), ("config", "get", "database_url"), ("status",)):
            shown.append(box.cli(*words, check=False).stdout)
        shown.append(box.cli("config", "set", "database_url", url).stdout)
        shown.append((box.data / "worker.log").read_text())
    shown.append(box.cli("config", "list", "--json").stdout)
    assert "hush" not in "".join(shown)
    value = json.loads(shown[-1])["database_url"]["value"]
    assert value.startswith(url.partition("ann")[0] + "ann:***@")
    assert (box.data / "config.toml").stat().st_mode & 0o777 == 0o600
