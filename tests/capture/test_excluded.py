"""Projects that are excluded, however their directory is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest
from box import Box

from backstory import project
from backstory.capture.excluded import is_excluded


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A directory to exclude, with a link to it, and others beside it."""
    for name in ("secret/deep", "secrets", "open", "clients/acme/src", "[odd]/x"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "open" / "door").symlink_to("../secret/deep")
    (tmp_path / "customers").symlink_to("clients")
    return tmp_path


@pytest.mark.parametrize(
    "pattern", ["secret", "secret/", "link", "open/../secret", "./secret", "open/door/..", "s*t", "?ink"]
)
@pytest.mark.parametrize(
    "cwd", ["secret", "secret/", "secret/deep", "link", "link/deep/gone", "open/../secret", "open/door"]
)
def test_an_excluded_directory_is_so_however_it_is_reached(places: Path, pattern: str, cwd: str) -> None:
    """By a link, by `..`, or by a link inside of another project."""
    here = f"{places}/{cwd}"
    assert is_excluded([f"{places}/{pattern}"], here, project.find(here))


@pytest.mark.parametrize(
    ("pattern", "cwd", "excluded"),
    [
        ("secret", "secrets", False),
        ("secret", "open", False),
        ("secret/deep", "secret", False),
        ("clients/*", "clients/acme", True),
        ("clients/*", "customers/acme/src", True),
        ("customers/*", "clients/acme/src", True),
        ("*/acme", "clients/acme/src", True),
        ("clients/*", "clients", False),
        ("cli*", "customers/acme/src", True),
        ("[odd]", "[odd]/x", True),
        ("[odd]", "[odd]", True),
    ],
)
def test_what_is_beside_it_is_not(places: Path, pattern: str, cwd: str, excluded: bool) -> None:
    """A directory and all that is in it, and nothing else."""
    here = f"{places}/{cwd}"
    assert is_excluded([f"{places}/{pattern}"], here, project.find(here)) is excluded


def test_home_and_names_and_keys_are_known(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is the project's, a key its remote's or its path."""
    monkeypatch.setenv("HOME", str(places))
    here = f"{places}/link/deep"
    assert is_excluded(["~/secret"], here, project.find(here))
    assert is_excluded(["/"], here, project.find(here))
    assert is_excluded(["sh?p"], "", project.Project("shop", "github.com/dev/shop"))
    assert is_excluded(["github.com/dev/*"], "/x", project.Project("shop", "github.com/dev/shop"))
    assert not is_excluded(["dev", "~/secret", "x"], "/x", project.Project("shop", "github.com/dev/shop"))


def test_a_worktree_of_an_excluded_repository_is_excluded(places: Path) -> None:
    """Where it has no remote: its project is the repository's path, whose links are resolved as well."""
    where = project.Project("secret", str(places / "secret"))
    assert is_excluded([str(places / "link")], "/elsewhere/tree", where)


def test_a_prompt_of_an_excluded_project_is_skipped(running: Box) -> None:
    """It is discarded like any other event, and that is no mistake of whoever sent it."""
    (running.root / "link").symlink_to(running.project)
    running.cli("config", "set", "exclude_projects", str(running.project))
    for cwd in (running.root / "link", running.root / "home" / ".." / "shop" / "src"):
        said = {"sessionId": "s", "userPrompt": "hello", "cwd": str(cwd), "project": "other"}
        answer = running.http("POST", "/sessions/init", said)
        assert (answer.status, answer.json) == (200, {"status": "skipped", "reason": "project"})
        running.hook("UserPromptSubmit", {"session_id": "s", "prompt": "hello", "cwd": str(cwd)})
    assert running.rows("SELECT * FROM user_prompts") == []
    assert running.rows("SELECT * FROM sdk_sessions") == []
    answer = running.http("POST", "/sessions/init", {"sessionId": "s", "userPrompt": "hello", "cwd": "/elsewhere"})
    assert answer.json == {"status": "active", "sessionDbId": 1, "promptNumber": 1}
