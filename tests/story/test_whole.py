"""What only the whole can show: transcripts, forgetting and backups together, with the real client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from box import Box, until
from claude import Claude, binary
from endpoint import Endpoint, Step, text, tool_use
from test_damage import backups, flip

pytestmark = [
    pytest.mark.usefixtures("meaning"),
    pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside"),
]


def session(box: Box, word: str) -> str:
    """A session that leaves a file with a word of its own; its id."""
    steps: list[Step] = [
        tool_use("Write", {"file_path": str(box.project / f"{word}.py"), "content": f"def {word}():\n    return 1\n"}),
        text(f"I made `{word}`. Next step: call {word} from the shop."),
    ]
    settings = {name: value for name, value in box.env.items() if name.startswith("BACKSTORY_")}
    with Endpoint(steps) as endpoint:
        return Claude(box.home, box.project, endpoint, env=settings).run(f"Make {word}.").session_id


def known(box: Box, word: str) -> bool:
    """Whether a word is in any row that people can see."""
    tables = ("events", "user_prompts", "observations", "session_summaries", "sdk_sessions")
    return any(word in json.dumps(box.rows(f"SELECT * FROM {table}")) for table in tables)  # noqa: S608


def test_i16_a_forgotten_session_does_not_come_back_from_its_transcript(box: Box) -> None:
    """The client's file still has it; a worker that starts and reads all transcripts does not bring it back."""
    box.cli("install")
    kept, gone = session(box, "marigold"), session(box, "heliotrope")
    box.settle()
    assert known(box, "heliotrope")
    box.cli("forget", "--session", gone, "--yes")
    assert not known(box, "heliotrope")
    (transcript,) = (box.home / ".claude" / "projects").rglob(f"{gone}.jsonl")
    assert "heliotrope" in transcript.read_text()
    box.cli("stop")
    transcript.touch()
    box.cli("start")
    box.cli("import", "claude-code", str(transcript.parent))
    box.settle()
    assert not known(box, "heliotrope")
    assert known(box, "marigold")
    assert "marigold" in box.told()
    assert "heliotrope" not in box.told("again")
    assert kept != gone
    box.cli("stop")


def test_what_came_after_the_last_backup_is_read_again_from_transcripts(box: Box) -> None:
    """A page of the database is flipped: the backup takes its place, and the session after it is complete again."""
    box.settings["BACKSTORY_BACKUP_HOURS"] = "0.0001"
    box.cli("install")
    session(box, "marigold")
    box.settle()
    until(lambda: backups(box), "a backup")
    box.settings["BACKSTORY_BACKUP_HOURS"] = "1000"
    box.cli("restart")
    session(box, "heliotrope")
    box.settle()
    box.cli("stop")
    before = box.rows("SELECT tool_use_id FROM events WHERE tool_use_id IS NOT NULL ORDER BY tool_use_id")
    assert len(before) == 2
    database = box.data / "backstory.db"
    flip(database, database.stat().st_size // 4096 // 2)
    box.cli("start")
    assert "restored from a backup" in box.cli("status").stdout

    def complete() -> bool:
        box.settle()
        return known(box, "heliotrope") and bool(
            box.rows("SELECT 1 FROM session_summaries WHERE next_steps LIKE '%heliotrope%'")
        )

    until(complete, "the transcript to be read again", 40)
    assert box.rows("SELECT tool_use_id FROM events WHERE tool_use_id IS NOT NULL ORDER BY tool_use_id") == before
    assert Path(box.data / "backups").is_dir()
    box.cli("stop")
