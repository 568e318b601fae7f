"""Export and import: nothing lost, nothing doubled, nothing half."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from box import Box, until

from backstory.secret_kinds import SECRETS
from backstory.store import queries

DEMO = Path(__file__).parent.parent.parent / "demo" / "session.jsonl"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Box]:
    """A second machine, its worker up."""
    machine = Box(tmp_path / "other")
    machine.home.mkdir(parents=True)
    machine.project.mkdir()
    machine.start()
    yield machine
    machine.clean_up()


def work(box: Box, session: str = "", words: str = "", here: bool = False) -> None:
    """The recorded session through the hook; under another id and with words of its own, if given, or on files that
    are there."""
    for line in DEMO.read_text().splitlines():
        call = json.loads(line.replace("/home/dev/shop", str(box.project)) if here else line)
        payload = call["payload"] | {"cwd": str(box.project)} | ({"session_id": session} if session else {})
        if words and "prompt" in payload:
            payload["prompt"] += f" {words}"
        box.hook(call["event"], payload)
    box.settle()


def fill(box: Box) -> None:
    """Something in every table: sessions, a parent, forgotten rows, a memory, groups, a dead event, a file's mark."""
    work(box)
    (box.project / "shop").mkdir()
    (box.project / "shop" / "cart.py").write_text("total = 0\n")
    work(box, "marked", here=True)
    work(box, "second", "umlaut ü, 日本, \u2028 and \U0001f600")
    box.cli("remember", "Prices are kept in cents", "--title", "Cents")
    box.cli("forget", "2")
    # Pinned, and replaced by one that comes later in the file.
    old, new = (row["id"] for row in box.rows("SELECT id FROM observations WHERE project = 'shop' ORDER BY id LIMIT 2"))
    box.cli("pin", str(old))
    box.cli("supersede", str(old), str(new))
    with closing(sqlite3.connect(box.data / "backstory.db")) as db:
        # A parent that comes later in the file.
        db.execute("UPDATE sdk_sessions SET parent_id = (SELECT MAX(id) FROM sdk_sessions) WHERE id = 1")
        db.execute("INSERT INTO sessions VALUES ('main', 'abc', 3, NULL)")
        db.execute("INSERT INTO session_history VALUES (7, 'main', 'old', 'first', '2026-01-01', '2026-01-02')")
        db.execute(
            "INSERT INTO model_calls VALUES ('2026-01-02', 'shop', 'anthropic', 'm', 'shop', 2, 900, 80, 10, NULL)"
        )
        db.execute("UPDATE events SET status = 'dead', attempts = 5, last_error = 'ValueError' WHERE id = 5")
        db.commit()


def export(box: Box, name: str = "export.jsonl") -> Path:
    file = box.root / name
    box.cli("export", "--output", str(file))
    return file


def body(file: Path) -> list[bytes]:
    """All but the heading, which has the time in it."""
    raw = file.read_bytes()
    return (gzip.decompress(raw) if file.suffix == ".gz" else raw).splitlines()[1:]


def load(box: Box, file: Path) -> str:
    return box.cli("import", "backstory", str(file)).stdout


def test_an_export_into_an_empty_store_gives_the_same_export(running: Box, other: Box) -> None:
    """Every table, byte for byte, keys included; and what came is searched and told as it was."""
    fill(running)
    first = export(running)
    tables = {json.loads(line).get("table") for line in body(first)[:-1]}
    assert tables == set(queries.owned("sqlite"))
    load(other, first)
    assert body(export(other)) == body(first)
    for query in ("discount", "umlaut", "cents"):
        found = [
            [(i["kind"], i["id"], i["title"]) for i in box.client.get("/api/search", query=query)["items"]]
            for box in (running, other)
        ]
        assert found[0] == found[1] != []
    key = running.rows("SELECT project_key FROM observations")[0]["project_key"]
    assert other.shim  # installed, as in the first: the context names our command, and its length counts
    told = [box.client.get("/api/context/inject", project=key) for box in (running, other)]
    assert told[0] == told[1]
    assert not other.rows("SELECT 1 FROM import_keys")


def test_a_second_import_changes_nothing(running: Box) -> None:
    """Into the store that it came from, and once more."""
    fill(running)
    first = export(running)
    for _ in range(2):
        assert load(running, first).startswith("0 of ")
        assert body(export(running, "again.jsonl")) == body(first)


def test_two_memories_become_one(running: Box, other: Box) -> None:
    """Rows under ids that are taken get others; each hangs on its own session and events; nothing is doubled."""
    work(running, "here", "alpha")
    work(other, "there", "omega")
    work(other, "here", "alpha")  # the same session was seen on both: its prompts are the same prompts
    file = export(other)
    load(running, file)
    once = body(export(running, "once.jsonl"))
    load(running, file)
    assert body(export(running, "twice.jsonl")) == once
    sessions = {r["content_session_id"]: r for r in running.rows("SELECT * FROM sdk_sessions")}
    assert set(sessions) == {"here", "there"}
    for name in sessions:
        there = {r["title"] for r in _observations(other, name)}
        assert there <= {r["title"] for r in _observations(running, name)}
    assert len(running.rows("SELECT 1 FROM user_prompts")) == 4
    strays = running.rows(
        "SELECT 1 FROM observation_events oe JOIN observations o ON o.id = oe.observation_id "
        "JOIN events e ON e.id = oe.event_id WHERE e.session_id <> o.session_id"
    )
    assert strays == []
    linked = "SELECT COUNT(DISTINCT observation_id) AS n FROM observation_events"
    assert running.rows(linked)[0]["n"] == running.rows("SELECT COUNT(*) AS n FROM observations")[0]["n"]
    assert running.client.get("/api/search", query="omega")["items"]


def _observations(box: Box, session: str) -> list[dict[str, Any]]:
    sql = "SELECT o.* FROM observations o JOIN sdk_sessions s ON s.id = o.session_id WHERE s.content_session_id = ?"
    return box.rows(sql, session)


def test_an_import_that_was_broken_off_is_finished_by_the_next(running: Box, other: Box) -> None:
    """The worker is killed half-way; the same command again, and nothing is missing."""
    fill(running)
    first = export(running)
    rows = [json.loads(line) for line in body(first)[:-1]]
    other.client.post("/api/import/rows", {"import_id": "x", "rows": rows[: len(rows) // 2]})
    other.kill(other.processes[-1])
    other.start()
    assert other.rows("SELECT 1 FROM import_keys") == []
    load(other, first)
    assert body(export(other)) == body(first)


def test_a_packed_file_and_standard_output_are_the_same(running: Box, other: Box) -> None:
    """`.gz` is packed, `-` goes to standard output, and both are for their owner only."""
    work(running)
    plain, packed = export(running), export(running, "export.jsonl.gz")
    assert body(packed) == body(plain)
    assert len(packed.read_bytes()) < len(plain.read_bytes()) / 2
    assert running.cli("export", "--output", "-").stdout.encode().splitlines()[1:] == body(plain)
    assert {file.stat().st_mode & 0o777 for file in (plain, packed)} == {0o600}
    load(other, packed)
    assert body(export(other)) == body(plain)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda raw: raw[: len(raw) * 2 // 3], "cut short"),
        (lambda raw: raw[: raw.rindex(b"\n", 0, -1) + 1], "cut short"),
        (lambda raw: b"\n".join(line for i, line in enumerate(raw.split(b"\n")) if i != 3), "cut short"),
        (lambda raw: raw + raw.split(b"\n")[1] + b"\n", "cut short"),
        (lambda raw: b"", "not an export"),
        (lambda raw: b"SQLite format 3\x00" + raw, "not an export"),
        (lambda raw: b'{"type":"user"}\n' + raw, "not an export"),
        (lambda raw: raw.replace(b'"format":1', b'"format":99', 1), "newer backstory"),
        (lambda raw: gzip.compress(raw)[:-20], "cut short"),
    ],
    ids=["half", "no end", "a line less", "a line more", "empty", "a database", "foreign", "newer", "packed, cut"],
)
def test_a_cut_or_foreign_file_is_refused_whole(running: Box, other: Box, spoil: Any, says: str) -> None:
    """One clear sentence, and not a row of it is taken in."""
    work(running)
    file = export(running)
    file.write_bytes(spoil(file.read_bytes()))
    refused = other.cli("import", "backstory", str(file), check=False)
    assert refused.returncode == 1
    assert says in refused.stderr
    assert len(refused.stderr.splitlines()) <= 2
    assert other.rows("SELECT 1 FROM sdk_sessions") == []


def test_rows_that_do_not_fit_are_refused_and_nothing_is_half_written(running: Box) -> None:
    """An unknown table or column, a wrong type, a missing value: 400, and the rows beside them stay out too."""
    good = {"table": "sessions", "row": {"group_folder": "g", "session_id": "s"}}
    session = {"id": 1, "agent": "a", "content_session_id": "c", "created_at": "x", "last_event_at": "x"}
    for bad in (
        {"table": "words", "row": {}},
        {"table": "sqlite_schema", "row": {"name": "x"}},
        {"table": "sessions", "row": {"group_folder": "h", "session_id": "s", "more": 1}},
        {"table": "sessions", "row": {"group_folder": 5, "session_id": "s"}},
        {"table": "sessions", "row": {"group_folder": "h"}},
        {"table": "sdk_sessions", "row": session | {"status": "no such"}},
        {"table": "sdk_sessions", "row": session | {"id": 2**70}},
    ):
        answer = running.http("POST", "/api/import/rows", {"import_id": "x", "rows": [good, bad]})
        assert answer.status == 400, bad
    assert running.rows("SELECT 1 FROM sessions") == []
    assert running.http("POST", "/api/import/rows", {"import_id": "x", "rows": [good]}).json == {"added": 1, "known": 0}


def test_i14_a_file_with_private_text_is_stripped_on_its_way_in(running: Box, other: Box) -> None:
    """Whoever wrote it: tags and secrets do not reach the disk, and JSON inside stays JSON."""
    work(running)
    file = export(running)
    secret = next(sample for name, _, _, sample in SECRETS if name == "github")  # any kind will do
    planted = f"<private>canary51</private> {secret}"
    raw = file.read_text().replace("Apply a discount code", f"Apply {json.dumps(planted)[1:-1]} code")
    assert "canary51" in raw
    file.write_text(raw)
    load(other, file)
    for found in other.data.rglob("*"):
        if found.is_file():
            assert b"canary51" not in found.read_bytes()
            assert secret.encode() not in found.read_bytes()
    for row in other.rows("SELECT payload FROM events WHERE payload IS NOT NULL"):
        json.loads(row["payload"])


def test_what_is_being_observed_here_waits_in_the_copy(running: Box, other: Box) -> None:
    """A lease is not carried over: the other store observes it itself."""
    running.settings["BACKSTORY_SETTLE_SECONDS"] = "600"
    running.stop(running.processes[-1])
    running.start()
    running.client.post(
        "/api/sessions/observations",
        {
            "sessionId": "x",
            "project": "p",
            "tool_name": "Bash",
            "tool_input": {"command": "make"},
            "tool_response": "ok",
        },
    )
    with closing(sqlite3.connect(running.data / "backstory.db")) as db:
        db.execute("UPDATE events SET status = 'leased', lease_until = 9999999999999, lease_owner = 'me'")
        db.commit()
    load(other, export(running))
    until(lambda: other.rows("SELECT 1 FROM events WHERE status = 'done'"), "the other to observe it")


def test_an_export_is_one_moment_and_flat_in_memory(box: Box) -> None:
    """While events keep coming, the file has no child without its parent; and the worker stays small."""
    box.settings["BACKSTORY_EMBEDDER"] = "off"  # what it needs is measured elsewhere
    box.start()
    running = box
    payload = "x" * 200_000
    for number in range(200):
        running.client.post(
            "/api/sessions/observations",
            {"sessionId": f"s{number % 5}", "tool_name": "Read", "tool_input": {"n": number}, "tool_response": payload},
        )
    running.settle()
    before = _memory(running)
    sessions: set[int] = set()
    for number, raw in enumerate(running.client.lines("/api/export")):
        if number == 20:
            running.client.post("/api/sessions/init", {"sessionId": "late", "userPrompt": "late", "project": "p"})
        line = json.loads(raw)
        if line.get("table") == "sdk_sessions":
            sessions.add(line["row"]["id"])
        elif "row" in line and isinstance(line["row"].get("session_id"), int):
            assert line["row"]["session_id"] in sessions
    assert "end" in line
    assert _memory(running) - before < 20_000


def _memory(box: Box) -> int:
    """Resident size of the worker, in KB."""
    text = Path(f"/proc/{(box.data / 'worker.lock').read_text()}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1])


def test_neither_token_nor_settings_are_exported(running: Box) -> None:
    """What opens the door stays here."""
    work(running)
    assert running.token not in export(running).read_text()
