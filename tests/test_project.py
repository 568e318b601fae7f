"""Which project a directory belongs to, on real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from backstory.project import find, normalize


def git(where: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=dev", "-c", "user.email=dev@example", *words],
        cwd=where,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def api(tmp_path: Path) -> Path:
    """A repository with a commit."""
    place = tmp_path / "work" / "api"
    place.mkdir(parents=True)
    git(place, "init", "-q", "-b", "main")
    git(place, "commit", "-q", "--allow-empty", "-m", "first")
    return place


def test_a_repository_without_a_remote_goes_by_its_root(api: Path) -> None:
    """From any directory in it."""
    deep = api / "src" / "deep"
    deep.mkdir(parents=True)
    found = find(str(deep))
    assert (found.name, found.key, found.branch) == ("api", str(api), "main")


def test_two_repositories_of_one_name_stay_apart_and_clones_stay_together(api: Path, tmp_path: Path) -> None:
    """The remote's address is the key, however it is written."""
    other = tmp_path / "elsewhere" / "api"
    other.mkdir(parents=True)
    git(other, "init", "-q")
    assert find(str(api)).key != find(str(other)).key
    git(api, "remote", "add", "origin", "git@example.com:dev/api.git")
    git(other, "remote", "add", "origin", "https://dev:s3cret@example.com/dev/api")
    assert find(str(api)).key == find(str(other)).key == "example.com/dev/api"


def test_worktrees_stay_together(api: Path, tmp_path: Path) -> None:
    """One project, each with its own branch."""
    tree = tmp_path / "trees" / "feature"
    git(api, "worktree", "add", "-q", "-b", "feature", str(tree))
    there, here = find(str(tree)), find(str(api))
    assert (there.name, there.key) == (here.name, here.key) == ("api", str(api))
    assert (there.branch, here.branch) == ("feature", "main")


def test_a_directory_that_is_no_repository_is_its_own_project(tmp_path: Path) -> None:
    """Whether it exists or not."""
    assert find(str(tmp_path / "notes")).name == "notes"
    assert find("/nowhere/at all/shop").key == "/nowhere/at all/shop"
    assert find("/").name == "/"


def test_a_broken_git_directory_is_no_obstacle(tmp_path: Path) -> None:
    """Half a repository is none."""
    (tmp_path / ".git").write_text("gitdir: /nowhere")
    assert find(str(tmp_path)).name == tmp_path.name
    (tmp_path / "x" / ".git").mkdir(parents=True)
    assert find(str(tmp_path / "x")).name == "x"


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("git@github.com:dev/shop.git", "github.com/dev/shop"),
        ("ssh://git@GitHub.com:22/dev/shop.git", "github.com/dev/shop"),
        ("https://user:token@github.com/dev/shop/", "github.com/dev/shop"),
        ("https://github.com/dev/shop", "github.com/dev/shop"),
        ("file:///srv/git/shop.git", "/srv/git/shop"),
        ("../shop.git", "../shop"),
    ],
)
def test_an_address_has_one_form_and_no_password(written: str, key: str) -> None:
    """However it is written."""
    assert normalize(written) == key
