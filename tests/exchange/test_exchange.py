"""Export and import: nothing lost, nothing doubled, nothing half."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from box import Box, until
from shared_box import started

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


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A machine with something in every table, its worker up, for the tests that change nothing there."""
    for machine in started(Box(tmp_path_factory.mktemp("full"))):
        fill(machine)
        yield machine


@pytest.fixture(scope="module")
def exported(full: Box) -> Path:
    """Its export, for the tests that only read it."""
    return export(full)


def work(box: Box, session: str = "", words: str = "", here: bool = False) -> None:
    """The recorded session, through the route that hooks use; under another id and with words of its own, if given, or
    on files that are there."""
    for line in DEMO.read_text().splitlines():
        call = json.loads(line.replace("/home/dev/shop", str(box.project)) if here else line)
        payload = call["payload"] | {"cwd": str(box.project)} | ({"session_id": session} if session else {})
        if words and "prompt" in payload:
            payload["prompt"] += f" {words}"
        box.client.post(f"/hooks/claude-code/{call['event']}", payload)
    box.settle()


def fill(box: Box) -> None:
    """Something in every table: sessions, a parent, forgotten rows, a memory, groups, a dead event, a file's mark."""
    work(box)
    (box.project / "shop").mkdir()
    (box.project / "shop" / "cart.py").write_text("total = 0\n")
    work(box, "marked", here=True)
    work(box, "second", "umlaut ü, 日本, \u2028 and \U0001f600")
    box.cli("remember", "Prices are kept in cents", "--title", "Cents")
    box.cli("forget", "2", "--yes")
    entries = [{"type": "user", "uuid": "u1", "message": {"content": "ü " * 900}}, {"type": "mode", "mode": "plan"}]
    box.client.post("/api/transcripts/entries", {"project_key": "shop", "session_id": "kept", "entries": entries})
    # Pinned, and replaced by one that comes later in the file.
    standing = "SELECT id FROM observations WHERE project = 'shop' AND superseded_by IS NULL ORDER BY id LIMIT 2"
    old, new = (row["id"] for row in box.rows(standing))
    box.cli("pin", str(old))
    box.cli("supersede", str(old), str(new))
    box.cli("hide", str(new), "S2")
    box.cli("sessions", "rename", "1", "The cart")
    box.cli("sessions", "tag", "1", "release")
    with closing(sqlite3.connect(box.data / "backstory.db")) as db:
        # A parent that comes later in the file.
        db.execute("UPDATE sdk_sessions SET parent_id = (SELECT MAX(id) FROM sdk_sessions) WHERE id = 1")
        db.execute("INSERT INTO agent_sessions VALUES (1, 'm', 4, 2, 900, 80, 1200, 'end_turn')")
        db.execute("INSERT INTO session_usage VALUES (1, 'u1', 'm', 900, 90000, 400, 0, 80, NULL)")
        db.execute("INSERT INTO session_usage VALUES (1, '', '', 0, 0, 0, 0, 0, 1200)")
        db.execute("INSERT INTO sessions VALUES ('main', 'abc', 3, NULL)")
        db.execute("INSERT INTO groups VALUES ('main', 'main', 3, '2026-01-01', NULL)")
        db.execute("INSERT INTO archives VALUES (5, 'main', 'old', 'T', 'clear', NULL, 'm', '2026-01-02', 'old.md')")
        db.execute("INSERT INTO session_history VALUES (7, 'main', 'old', 'first', '2026-01-01', '2026-01-02')")
        db.execute(
            "INSERT INTO model_calls VALUES ('2026-01-02', 'shop', 'anthropic', 'm', 'shop', 2, 900, 80, 10, NULL)"
        )
        db.execute("UPDATE events SET status = 'dead', attempts = 5, last_error = 'ValueError' WHERE id = 5")
        db.commit()


def export(box: Box, name: str = "export.jsonl") -> Path:
    file = box.root / name
    box.cli("export", "--output", str(file), "--yes")
    return file


def body(file: Path) -> list[bytes]:
    """All but the heading, which has the time in it."""
    raw = file.read_bytes()
    return (gzip.decompress(raw) if file.suffix == ".gz" else raw).splitlines()[1:]


def load(box: Box, file: Path) -> str:
    return box.cli("import", "backstory", str(file)).stdout


def test_an_export_into_an_empty_store_gives_the_same_export(full: Box, other: Box, exported: Path) -> None:
    """Every table, byte for byte, keys included; and what came is searched and told as it was. What opens the door
    stays here."""
    tables = {json.loads(line).get("table") for line in body(exported)[:-1]}
    assert tables == set(queries.owned())
    assert full.token not in exported.read_text()
    load(other, exported)
    assert body(export(other)) == body(exported)
    for query in ("discount", "umlaut", "cents"):
        found = [
            [(i["kind"], i["id"], i["title"]) for i in box.client.get("/api/search", query=query)["items"]]
            for box in (full, other)
        ]
        assert found[0] == found[1] != []
    key = full.rows("SELECT project_key FROM observations")[0]["project_key"]
    told = [box.client.get("/api/context/inject", project=key) for box in (full, other)]
    assert told[0] == told[1]
    assert not other.rows("SELECT 1 FROM import_keys")


def test_a_second_import_changes_nothing(full: Box, exported: Path) -> None:
    """Into the store that it came from, and once more."""
    for _ in range(2):
        assert load(full, exported).startswith("0 of ")
    assert body(export(full, "again.jsonl")) == body(exported)


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


def test_an_import_that_was_broken_off_is_finished_by_the_next(other: Box, exported: Path) -> None:
    """The worker is killed half-way; the same command again, and nothing is missing."""
    rows = [json.loads(line) for line in body(exported)[:-1]]
    other.client.post("/api/import/rows", {"import_id": "x", "rows": rows[: len(rows) // 2]})
    other.kill(other.processes[-1])
    other.start()
    assert other.rows("SELECT 1 FROM import_keys") == []
    load(other, exported)
    assert body(export(other)) == body(exported)


def test_a_packed_file_and_standard_output_are_the_same(full: Box, other: Box, exported: Path) -> None:
    """`.gz` is packed, `-` goes to standard output, and both are for their owner only."""
    packed = export(full, "export.jsonl.gz")
    assert body(packed) == body(exported)
    assert len(packed.read_bytes()) < len(exported.read_bytes()) / 2
    assert full.cli("export", "--output", "-").stdout.encode().splitlines()[1:] == body(exported)
    assert {file.stat().st_mode & 0o777 for file in (exported, packed)} == {0o600}
    load(other, packed)
    assert body(export(other)) == body(exported)


#: what is done to a file -> what is said of it
SPOILS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "half": (lambda raw: raw[: len(raw) * 2 // 3], "cut short"),
    "no end": (lambda raw: raw[: raw.rindex(b"\n", 0, -1) + 1], "cut short"),
    "a line less": (lambda raw: b"\n".join(line for i, line in enumerate(raw.split(b"\n")) if i != 3), "cut short"),
    "a line more": (lambda raw: raw + raw.split(b"\n")[1] + b"\n", "cut short"),
    "empty": (lambda raw: b"", "not an export"),
    "a database": (lambda raw: b"SQLite format 3\x00" + raw, "not an export"),
    "foreign": (lambda raw: b'{"type":"user"}\n' + raw, "not an export"),
    "newer": (lambda raw: raw.replace(b'"format":1', b'"format":99', 1), "newer backstory"),
    "packed, cut": (lambda raw: gzip.compress(raw)[:-20], "cut short"),
}


def test_a_cut_or_foreign_file_is_refused_whole(other: Box, exported: Path) -> None:
    """One clear sentence, and not a row of it is taken in."""
    for name, (spoil, says) in SPOILS.items():
        file = other.root / name
        file.write_bytes(spoil(exported.read_bytes()))
        refused = other.cli("import", "backstory", str(file), check=False)
        assert refused.returncode == 1, name
        assert says in refused.stderr, name
        assert len(refused.stderr.splitlines()) <= 2, name
        assert other.rows("SELECT 1 FROM sdk_sessions") == [], name


def test_rows_that_this_version_does_not_know_keep_everything_out(running: Box) -> None:
    """An unknown table or column is of a newer backstory: 400, and the rows beside it stay out too."""
    good = {"table": "sessions", "row": {"group_folder": "g", "session_id": "s"}}
    for bad in (
        {"table": "words", "row": {}},
        {"table": "sqlite_schema", "row": {"name": "x"}},
        {"table": "sessions", "row": {"group_folder": "h", "session_id": "s", "more": 1}},
    ):
        answer = running.http("POST", "/api/import/rows", {"import_id": "x", "rows": [good, bad]})
        assert answer.status == 400, bad
    assert running.rows("SELECT 1 FROM sessions") == []


NOW = "2026-01-02T03:04:05.678Z"
SESSION = {"id": 1, "agent": "a", "content_session_id": "c", "created_at": NOW, "last_event_at": NOW}
EVENT = {"id": 1, "event_id": "e", "session_id": 1, "kind": "tool", "occurred_at": NOW, "created_at": NOW}
EVENT |= {"status": "done", "payload": "{}"}
SEEN = {"id": 1, "session_id": 1, "prompt_number": 1, "memory_session_id": "m", "project": "p", "project_key": "p"}
SEEN |= {"type": "change", "title": "T", "compressed_observation": "{}", "provider": "offline", "created_at": NOW}
TURN = {"id": 1, "session_id": 1, "number": 0, "role": "user", "text": "Hi", "at": NOW}
GOOD = {"sdk_sessions": SESSION, "events": EVENT, "observations": SEEN, "turns": TURN}
BAD: list[tuple[str, dict[str, Any]]] = [
    ("sessions", {"group_folder": 5, "session_id": "s"}),
    ("sessions", {"group_folder": "h"}),
    ("sdk_sessions", {"status": "no such"}),
    ("sdk_sessions", {"id": 2**70}),
    ("sdk_sessions", {"id": -1}),
    ("sdk_sessions", {"id": True}),
    ("sdk_sessions", {"content_session_id": ""}),
    ("sdk_sessions", {"agent": "x" * 5000}),
    *[("sdk_sessions", {"last_event_at": at}) for at in ("garbage", "", "0001-01-01T00:00:00.000Z", "99999-12-31")],
    *[("observations", {"created_at": at}) for at in (None, 5, "9999-12-31T23:59:59Z", '"><script>')],
    *[("observations", {"facts": value}) for value in ("not json [", "{}", "[1]", '[{"a": 2}]', "[" * 100_000)],
    ("observations", {"files_modified": "null"}),
    ("observations", {"compressed_observation": "[]"}),
    ("observations", {"type": "change\x1b[31m"}),
    ("observations", {"type": "change\n"}),
    ("observations", {"prompt_number": "1"}),
    ("events", {"payload": "not json"}),
    ("events", {"payload": "[1]"}),
    ("events", {"kind": "nonsense"}),
    ("events", {"occurred_at": "yesterday"}),
    ("turns", {"role": "system"}),
    ("turns", {"number": -5}),
]


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_row_that_does_not_fit_is_refused_alone(box: Box, engine: str, request: pytest.FixtureRequest) -> None:
    """Every kind of value, on both engines: the reason is told and quotes nothing, and the rows beside it come in."""
    if engine == "postgres":
        box.settings["BACKSTORY_DATABASE_URL"] = request.getfixturevalue("database_url")
    box.start()
    for number, (table, change) in enumerate(BAD):
        row = GOOD.get(table, {}) | change
        good = {"table": "sessions", "row": {"group_folder": f"g{number}", "session_id": "s"}}
        asked = {"import_id": "x", "rows": [{"table": table, "row": row}, good]}
        answer = box.http("POST", "/api/import/rows", asked)
        assert answer.status == 200, (table, change)
        (refused,) = answer.json["refused"]
        assert refused["row"] == 0 and refused["reason"].startswith(f"`{table}")
        assert "script" not in refused["reason"] and "\x1b" not in refused["reason"]
        assert answer.json["added"] == 1
    rows = [{"table": table, "row": row} for table, row in GOOD.items()]
    told = box.http("POST", "/api/import/rows", {"import_id": "y", "rows": rows, "done": True}).json
    assert told == {"added": 4, "known": 0, "refused": []}


def test_a_row_that_the_database_refuses_keeps_no_other_out(box: Box, database_url: str) -> None:
    """What only the database knows, such as an id that is too long for PostgreSQL's index: rows go in one by one."""
    box.settings["BACKSTORY_DATABASE_URL"] = database_url
    box.start()
    rows = [{"table": "sdk_sessions", "row": SESSION}]
    rows += [{"table": "events", "row": EVENT | {"event_id": os.urandom(2000).hex()}}]
    rows += [{"table": "observations", "row": SEEN}]
    told = box.http("POST", "/api/import/rows", {"import_id": "x", "rows": rows, "done": True}).json
    assert told == {"added": 2, "known": 0, "refused": [{"row": 1, "reason": "`events` does not fit"}]}


def test_the_command_names_the_line_of_a_row_that_does_not_fit(full: Box, other: Box, exported: Path) -> None:
    """And imports the rest, exits 1, and everything is shown."""
    file = other.root / "spoiled.jsonl"
    lines = exported.read_text().split("\n")[:-1]
    at = next(number for number, line in enumerate(lines) if '"table":"observations"' in line)
    row = json.loads(lines[at])
    row["row"]["created_at"] = "garbage\x1b[31m"
    lines[at] = json.dumps(row)
    file.write_text("\n".join(lines) + "\n")
    run = other.cli("import", "backstory", str(file), check=False)
    assert run.returncode == 1
    assert f"line {at + 1}: `observations.created_at` is not a time" in run.stderr
    there = len(full.rows("SELECT 1 FROM observations"))
    assert len(other.rows("SELECT 1 FROM observations")) == there - 1
    for route in ("/", "/api/stats", "/api/observations", "/api/context/inject?project=shop"):
        assert other.http("GET", route).status == 200


def test_i14_a_file_with_private_text_is_stripped_on_its_way_in(other: Box, exported: Path) -> None:
    """Whoever wrote it: tags and secrets do not reach the disk, and JSON inside stays JSON."""
    file = other.root / "private.jsonl"
    secret = next(samples[0] for name, _, _, samples in SECRETS if name == "github")  # any kind will do
    planted = f"<private>canary51</private> {secret}"
    raw = exported.read_text().replace("Apply a discount code", f"Apply {json.dumps(planted)[1:-1]} code")
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
    running.tuning["settle_seconds"] = 600
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
