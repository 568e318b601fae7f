"""Files are named from the repository's root, and worktrees are one project, wherever a session was started."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

from box import Box
from test_project import git
from transcripts import Script

WHY = {
    "s-root": "the till needs totals of the whole day",
    "s-sub": "a discount was counted into its totals twice",
    "s-tree": "foreign currencies have totals without decimals",
}


def change(box: Box, session: str, cwd: Path, file: Path, text: str) -> None:
    """A session that is started in a directory and writes a file."""
    file.write_text(text)
    about = {"session_id": session, "cwd": str(cwd)}
    box.hook("UserPromptSubmit", about | {"prompt": f"Please write {file.name} for {session}"})
    given = {"file_path": str(file), "content": text}
    used = {"tool_name": "Write", "tool_use_id": f"use-{session}", "tool_input": given}
    box.hook("PostToolUse", about | used | {"tool_response": {"type": "create", "filePath": str(file)}})
    says = f"Wrote {file.name}, because {WHY[session]}."
    box.hook("Stop", about | {"last_assistant_message": says})
    box.settle()


def told(box: Box, cwd: Path, session: str) -> str:
    answer = box.hook("SessionStart", {"session_id": session, "source": "startup", "cwd": str(cwd)})
    return str(json.loads(answer.stdout)["hookSpecificOutput"]["additionalContext"])


def files(box: Box, cwd: Path, *words: str) -> set[str]:
    """The sessions whose observations the command finds by a file, from a directory."""
    found = box.cli("search", "totals", "--json", "--kind", "observations", "--file", *words, cwd=cwd)
    return {item["session"] for item in json.loads(found.stdout)["items"]}


def test_files_and_branches_are_those_of_the_repository(running: Box) -> None:
    """From the root, a subdirectory and a worktree on another branch: one project, the same names of files."""
    shop = running.project
    git(shop, "init", "-q", "-b", "main")
    git(shop, "commit", "-q", "--allow-empty", "-m", "first")
    tree = running.root / "trees" / "feature"
    git(shop, "worktree", "add", "-q", "-b", "feature", str(tree))
    for place in (shop, tree):
        (place / "till").mkdir()
    change(running, "s-root", shop, shop / "till" / "cart.py", "a = 1\n")
    change(running, "s-sub", shop / "till", shop / "till" / "cart.py", "b = 2\n")
    change(running, "s-tree", tree / "till", tree / "till" / "cart.py", "c = 3\n")
    rows = running.rows("SELECT project, project_key, root FROM sdk_sessions ORDER BY id")
    assert {(row["project"], row["project_key"]) for row in rows} == {("shop", str(shop))}
    assert [row["root"] for row in rows] == [str(shop), str(shop), str(tree)]
    lists = [json.loads(row["files_modified"]) for row in running.rows("SELECT files_modified FROM observations")]
    named = {name for each in lists for name in each}
    assert named == {"till/cart.py"}
    whole = {"s-root", "s-sub", "s-tree"}
    assert files(running, shop, "till/cart.py") == files(running, shop / "till", "cart.py") == whole
    assert files(running, shop / "till", "./cart.py") == files(running, tree, str(tree / "till" / "cart.py")) == whole
    assert files(running, shop, "other/cart.py") == files(running, shop / "till", "../other/cart.py") == set()
    here = told(running, shop, "s-next")
    assert "branch feature: Please write" in here and "(branch" not in here, "the heading names the branch"
    (number,) = (row["id"] for row in running.rows("SELECT id FROM observations WHERE title LIKE '%currencies%'"))
    running.cli("pin", str(number))
    (line,) = (line for line in told(running, shop, "s-pin").splitlines() if line.startswith(f"#{number} "))
    assert line.endswith("(branch feature)")
    assert "(branch" not in told(running, tree, "s-there")
    assert running.client.get(f"/api/observations/{number}")["changed"] == []
    (tree / "till" / "cart.py").write_text("d = 4\n")
    assert running.client.get(f"/api/observations/{number}")["changed"] == ["till/cart.py"]
    # An observation from before names its files from the directory of its session.
    (older,) = (row["id"] for row in running.rows("SELECT id FROM observations WHERE title LIKE '%twice%'"))
    with contextlib.closing(sqlite3.connect(running.data / "backstory.db")) as db:
        db.execute("UPDATE observation_files SET path = 'cart.py' WHERE observation_id = ?", (older,))
        db.commit()
    assert running.client.get(f"/api/observations/{older}")["changed"] == []
    # The worktree is gone, and its conversation is imported.
    shutil.rmtree(tree)
    script = Script("s-imported", str(tree / "till"))
    script.prompt("Please mend the till in the worktree")
    script.uses("Write", {"file_path": str(tree / "till" / "cart.py"), "content": "e = 5\n"}, "use-imported")
    script.answers("use-imported", "written")
    script.says("Mended the till, because the drawer was counted twice.")
    running.cli("import", "claude-code", str(script.write(running.root / "transcripts")))
    running.settle()
    (row,) = running.rows("SELECT project, project_key FROM sdk_sessions WHERE content_session_id = 's-imported'")
    assert (row["project"], row["project_key"]) == ("shop", str(shop))
