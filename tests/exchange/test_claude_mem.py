"""`backstory import claude-mem`: what another memory knew, once, with its times; and its file is left as it was."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

from box import Box

NOW = """
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT NOT NULL, memory_session_id TEXT UNIQUE,
  project TEXT NOT NULL,
  platform_source TEXT NOT NULL DEFAULT 'claude', user_prompt TEXT, started_at TEXT, started_at_epoch INTEGER,
  completed_at TEXT, completed_at_epoch INTEGER, status TEXT, worker_port INTEGER, prompt_counter INTEGER,
  custom_title TEXT);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, text TEXT,
  type TEXT NOT NULL,
  title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT,
  prompt_number INTEGER, discovery_tokens INTEGER DEFAULT 0, created_at TEXT, created_at_epoch INTEGER,
  content_hash TEXT);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT,
  investigated TEXT,
  learned TEXT, completed TEXT, next_steps TEXT, files_read TEXT, files_edited TEXT, notes TEXT,
  prompt_number INTEGER,
  discovery_tokens INTEGER DEFAULT 0, created_at TEXT, created_at_epoch INTEGER);
CREATE TABLE user_prompts (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_db_id INTEGER, content_session_id TEXT, prompt_number INTEGER,
  prompt_text TEXT, created_at TEXT, created_at_epoch INTEGER);
INSERT INTO sdk_sessions VALUES
  (3, 'c-one', 'm-one', 'shop', 'claude', 'Mend the till', '2026-01-05T12:00:00Z', 1767614400000, NULL, 1767618000000,
   'completed', NULL, 2, 'The till'),
  (4, 'c-two', NULL, 'shop', 'codex', NULL, '2026-01-06T12:00:00Z', 1767700800000, NULL, NULL, 'active',
  NULL, 0, NULL);
INSERT INTO observations VALUES
  (7, 'm-one', 'shop', NULL, 'bugfix', 'Till rounds down', 'cents', '["Prices are integers","Rounding was float"]',
   'The till rounded with floats.', '["gotcha"]', '["till.py"]', '["till.py","money.py"]', 1, 120, NULL,
  1767614460000, 'abc'),
  (8, 'm-one', 'shop', 'only a text, of an early version', 'security_alert', NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, 0,
   '2026-01-05T12:02:00.000Z', NULL, NULL),
  (9, 'm-lost', 'shop', NULL, 'change', 'Of a session that is gone', NULL, NULL, NULL, NULL, NULL, NULL, 1,
  0, NULL, 1, NULL);
INSERT INTO session_summaries VALUES
  (1, 'm-one', 'shop', 'first try', '', '', '', '', NULL, NULL, NULL, 1, 0, NULL, 1767614470000),
  (2, 'm-one', 'shop', 'Mend the till', 'The code', 'Floats round', 'Integers now', 'Tell Bob', NULL, NULL,
  'none', 1, 0, NULL,
   1767614480000);
INSERT INTO user_prompts VALUES
  (1, 3, 'c-one', 1, 'Mend the till', NULL, 1767614400000),
  (2, 3, 'c-one', 2, '<private>okapi3c</private>', NULL, 1767614500000);
"""
#: The first versions had other names, fewer columns and no summaries.
EARLY = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, claude_session_id TEXT, sdk_session_id TEXT, project TEXT,
  started_at TEXT);
CREATE TABLE observations (id INTEGER PRIMARY KEY, sdk_session_id TEXT, project TEXT, text TEXT, type TEXT,
  created_at TEXT);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, claude_session_id TEXT, prompt_number INTEGER,
  prompt_text TEXT, created_at TEXT);
INSERT INTO sdk_sessions VALUES (1, 'c-old', 'm-old', 'attic', '2025-09-01T08:00:00.000Z');
INSERT INTO observations VALUES (1, 'm-old', 'attic', 'The roof leaks at the ridge.', 'discovery',
  '2025-09-01T08:01:00.000Z');
INSERT INTO user_prompts VALUES (1, 'c-old', 1, 'Look at the roof', '2025-09-01T08:00:00.000Z');
"""


def made(path: Path, schema: str) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(schema)
    return path


def test_what_claude_mem_remembers_comes_over_once(running: Box) -> None:
    """Sessions, observations, summaries and prompts with times, types, files and project; again nothing is new."""
    running.hook("UserPromptSubmit", {"session_id": "here", "prompt": "hello", "cwd": str(running.project)})
    (here,) = running.rows("SELECT project_key FROM sdk_sessions")
    file = made(running.root / "claude-mem.db", NOW)
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    assert running.cli("import", "claude-mem", str(file)).stdout == (
        "claude-mem has 2 sessions, 2 prompts, 2 observations, 1 summary.\n7 of 7 rows were new.\n"
    )
    (one,) = running.rows("SELECT * FROM sdk_sessions WHERE content_session_id = 'c-one'")
    assert (one["agent"], one["project"], one["project_key"]) == ("claude-code", "shop", here["project_key"])
    assert (one["title"], one["status"], one["prompt_counter"]) == ("The till", "completed", 2)
    assert (one["created_at"], one["completed_at"]) == ("2026-01-05T12:00:00.000Z", "2026-01-05T13:00:00.000Z")
    assert running.rows("SELECT agent FROM sdk_sessions WHERE content_session_id = 'c-two'") == [{"agent": "codex"}]
    first, second = (
        running.client.get(f"/api/observations/{row['id']}") for row in running.rows("SELECT id FROM observations")
    )
    assert (first["type"], first["title"], first["prompt_number"]) == ("bugfix", "Till rounds down", 1)
    assert first["facts"] == ["Prices are integers", "Rounding was float"]
    assert (first["files_read"], first["files_modified"]) == (["till.py"], ["till.py", "money.py"])
    assert first["created_at"] == "2026-01-05T12:01:00.000Z"
    assert (second["type"], second["title"]) == ("discovery", "only a text, of an early version")
    (summary,) = running.rows("SELECT request, completed, next_steps FROM session_summaries")
    assert summary == {"request": "Mend the till", "completed": "Integers now", "next_steps": "Tell Bob"}
    prompts = running.rows(
        "SELECT prompt, is_private FROM user_prompts WHERE session_id = ? ORDER BY 1 DESC", one["id"]
    )
    assert prompts == [{"prompt": "Mend the till", "is_private": 0}, {"prompt": None, "is_private": 1}]
    turns = running.client.get("/api/sessions/c-one/turns", limit=1)
    assert [(t["number"], t["role"], t["text"]) for t in turns["items"]] == [(0, "user", "Mend the till")]
    (private,) = running.client.get("/api/sessions/c-one/turns", cursor=turns["next"])["items"]
    assert (private["number"], private["text"]) == (1, None)
    assert [
        hit["title"] for hit in running.client.get("/api/search", query="float rounding", kind="observations")["items"]
    ]
    assert "Till rounds down" in running.cli("context").stdout
    assert "(private" in running.cli("sessions", "show", "c-one", "--turns").stdout
    dump = running.dump()
    assert running.cli("import", "claude-mem", str(file)).stdout.endswith("\n0 of 7 rows were new.\n")
    assert running.dump() == dump
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before


def test_an_early_version_is_read_too(running: Box) -> None:
    """Other names for the same ids, columns and tables that are not there."""
    file = made(running.root / "old.db", EARLY)
    assert running.cli("import", "claude-mem", str(file)).stdout.endswith("\n3 of 3 rows were new.\n")
    (seen,) = running.rows("SELECT title, created_at, project FROM observations")
    assert seen == {
        "title": "The roof leaks at the ridge.",
        "created_at": "2025-09-01T08:01:00.000Z",
        "project": "attic",
    }
    assert running.rows("SELECT prompt FROM user_prompts") == [{"prompt": "Look at the roof"}]


def test_every_session_is_listed_and_counted(running: Box) -> None:
    """Also one whose prompts claude-mem did not count, and one that holds nothing. Projects are those of the
    directories in which the agent has worked, by its transcripts, or in which this is run."""
    attic = running.root / "old" / "attic"
    transcript = running.home / ".claude" / "projects" / "-old-attic" / "c-old.jsonl"
    transcript.parent.mkdir(parents=True)
    entry = {"type": "user", "sessionId": "c-old", "uuid": "u", "timestamp": "2025-09-01T08:00:00.000Z"}
    message = {"role": "user", "content": "Look at the roof"}
    transcript.write_text(json.dumps(entry | {"cwd": str(attic), "message": message}) + "\n")
    running.cli("import", "claude-mem", str(made(running.root / "old.db", EARLY)))
    running.cli("import", "claude-mem", str(made(running.root / "new.db", NOW)))
    listed = running.client.get("/api/sessions")["items"]
    assert [(row["content_session_id"], row["prompt_counter"]) for row in listed] == [
        ("c-two", 0),
        ("c-one", 2),
        ("c-old", 1),
    ]
    projects = {row["key"]: row["sessions"] for row in running.client.get("/api/projects")["items"]}
    assert projects == {str(running.project): 2, str(attic): 1}
    assert running.client.get("/api/stats")["counts"]["sessions"] == 3


def test_what_is_no_such_database_is_refused(running: Box) -> None:
    """Missing, empty, something else, damaged, or another program's: one sentence, and nothing is changed."""
    contents = {
        "missing": None,
        "empty": b"",
        "text": b"no database at all",
        "damaged": b"SQLite format 3\0" + b"\xff" * 4096,
    }
    for name, content in contents.items():
        if content is not None:
            (running.root / name).write_bytes(content)
    made(running.root / "other", "CREATE TABLE t (a)")
    for name in (*contents, "other"):
        answer = running.cli("import", "claude-mem", str(running.root / name), check=False)
        assert answer.returncode == 1, name
        assert "claude-mem" in answer.stderr, name
        assert "Traceback" not in answer.stderr, name
    assert running.rows("SELECT 1 FROM sdk_sessions") == []
