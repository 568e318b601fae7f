"""Which project a directory belongs to, on real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from backstory.project import find, normalize, path_from_root


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
    assert (there.root, here.root) == (str(tree), str(api))
    deep = tree / "src"
    deep.mkdir()
    assert find(str(deep)).root == str(tree)


def test_worktrees_of_a_bare_repository_stay_together(api: Path, tmp_path: Path) -> None:
    """The folder around them names the project."""
    home = tmp_path / "shop"
    git(tmp_path, "clone", "-q", "--bare", str(api), str(home / ".bare"))
    git(home / ".bare", "remote", "remove", "origin")
    for name in ("one", "two"):
        git(home / ".bare", "worktree", "add", "-q", "-b", name, str(home / name))
    assert {find(str(home / name)).name for name in ("one", "two")} == {"shop"}
    assert find(str(home / "one")).key == find(str(home / "two")).key


def test_a_worktree_that_is_gone_belongs_to_its_repository(api: Path) -> None:
    """By its path, if that tells; files are named from the worktree. An agent's own folder of worktrees does not."""
    for gone in (api / ".claude" / "worktrees" / "feature", api / ".worktrees" / "feature"):
        found = find(str(gone / "src"))
        assert (found.name, found.key, found.root) == ("api", str(api), str(gone))
    away = find("/nowhere/shop/.claude/worktrees/feature/src")
    assert (away.name, away.key, away.root) == ("shop", "/nowhere/shop", "/nowhere/shop/.claude/worktrees/feature")
    assert find("/nowhere/.codex/worktrees/1a2b/shop").name == "shop"


def test_a_path_is_named_from_the_root(api: Path) -> None:
    """If it is one of a file that is there, or written like a path. The end of a path stays as it is."""
    deep = api / "src" / "deep"
    deep.mkdir(parents=True)
    (deep / "cart.py").touch()
    assert path_from_root("cart.py", str(deep)) == path_from_root("./cart.py", str(deep)) == "src/deep/cart.py"
    assert path_from_root(str(deep / "cart.py"), str(api)) == "src/deep/cart.py"
    assert path_from_root("../till.py", str(deep)) == "src/till.py"
    assert path_from_root("cart.py", str(api)) == "cart.py", "the end of a path"
    assert path_from_root("/elsewhere/cart.py", str(api)) == "/elsewhere/cart.py"


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
        ("git@github.com:dev/shop@v2.git", "github.com/dev/shop@v2"),
        ("https://github.com:443/dev/shop@v2", "github.com/dev/shop@v2"),
        ("git@[::1]:dev/shop", "[::1]/dev/shop"),
    ],
)
def test_an_address_has_one_form_and_no_password(written: str, key: str) -> None:
    """However it is written."""
    assert normalize(written) == key


@pytest.mark.parametrize(
    "written",
    [
        "https://hunter2@github.com/dev/shop",
        "https://dev:hunter2@github.com/dev/shop",
        "https://dev:hun@hunter2@github.com/dev/shop",
        "https://dev:hun/hunter2@github.com/dev/shop",
        "https://dev:hun?hunter2@github.com/dev/shop",
        "https://github.com/dev/shop?private_token=hunter2",
        "https://github.com/dev/shop.git#hunter2",
        "HTTPS://dev:hunter2@GITHUB.com:443/dev/shop.git/",
        "ssh://dev:hunter2@github.com:22/dev/shop",
        "dev:hunter2@github.com:dev/shop.git",
        "dev:hun/hunter2@github.com:dev/shop.git",
        "dev:hunter2@github.com/dev/shop",
        "hunter2@github.com/dev/shop",
        "dev@hunter2@github.com:dev/shop",
        "ext::https://dev:hunter2@github.com/dev/shop",
        '"https://dev:hunter2@github.com/dev/shop"',
        "https://dev:hunter2@github.com/dev/shop ; hunter2",
    ],
)
def test_what_opens_a_remote_is_in_no_key(api: Path, written: str) -> None:
    """However it is written into the configuration."""
    with (api / ".git" / "config").open("a") as config:
        config.write(f'[Remote "origin"]\n\tURL = {written}\n')
    assert find(str(api)).key == "github.com/dev/shop"


@pytest.mark.parametrize(
    "written", ["https://hunter2@github.com", "https://dev:hunter2", "//dev:hunter2@github.com/x", "x:/dev:hunter2@h/x"]
)
def test_what_is_no_address_holds_no_password_either(written: str) -> None:
    """Nobody fetches from these, but they are kept."""
    assert "hunter2" not in normalize(written)


@pytest.mark.parametrize(
    ("head", "branch"),
    [
        ("ref: refs/heads/feature/täx", "feature/täx"),
        ("ref: refs/heads/.invalid", None),  # how git says that references are in another format
        ("0" * 40, None),
        ("ref: refs/remotes/origin/main", None),
        ("ref: refs/heads/a\x1b]0;b", None),
        ("ref: refs/heads/a\nb", None),
        ("ref: refs/heads/a\u202eb", None),
        ("ref: refs/heads/a b", None),
        ("ref: refs/heads/../../b", None),
        ("ref: refs/heads/" + "a" * 300, None),
        ("ref: refs/heads/", None),
    ],
)
def test_a_branch_is_a_name_that_git_accepts(api: Path, head: str, branch: str | None) -> None:
    """Anything else is none."""
    (api / ".git" / "HEAD").write_text(head + "\n")
    assert find(str(api)).branch == branch
