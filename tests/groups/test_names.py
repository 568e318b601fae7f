"""Names of groups: the rule, and that no name leads out of the data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from backstory.errors import BadInput
from backstory.groups import names

BAD = [
    *(
        "",
        " ",
        ".",
        "..",
        "../x",
        "a/b",
        "a\\b",
        "/etc",
        "-x",
        "_x",
        ".hidden",
        "a.b",
        "a b",
        "a ",
        " a",
        "a\n",
        "a\x00",
    ),
    *("x" * 65, "groß", "ａ", "a:b", "~", "$HOME", "*"),
    *("global", "GLOBAL", "Global", "errors", "Errors", "MAIN", "Main"),
]


@pytest.mark.parametrize("name", BAD)
def test_a_bad_name_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(BadInput) as error:
        names.GroupPaths(Path("/data"), name)
    assert str(error.value).count(".") == 1
    assert error.value.hint


@pytest.mark.parametrize("name", ["main", "a", "9", "dev-team", "Dev_Team", "x" * 64])
def test_the_paths_of_a_group_are_in_the_data_directory(name: str) -> None:
    paths = names.GroupPaths(Path("/data"), names.check(name))
    assert paths.folder == Path("/data/groups") / name
    assert paths.conversations == paths.folder / "conversations"
    assert paths.state == Path("/data/sessions") / name / ".claude"
    assert [paths.input, paths.tasks, paths.responses] == [
        Path("/data/ipc", name, each) for each in ("input", "tasks", "responses")
    ]
    assert paths.transcript("d58a79a7-451e") == paths.state / "projects/-workspace-group/d58a79a7-451e.jsonl"
    for path in (paths.folder, paths.folder / "src", paths.transcript("d58a79a7-451e")):
        assert names.of_path(Path("/data"), str(path)) == name


@pytest.mark.parametrize(
    "path", ["", "/data", "/data/groups", "/data/groups/global/x", "/data/ipc/a", "/databases/groups/a", "groups/a"]
)
def test_other_paths_belong_to_no_group(path: str) -> None:
    assert names.of_path(Path("/data"), path) is None
    assert names.of_path(Path("/data"), f"/data/groups/a/../b/{path}") is None


def test_a_data_directory_that_is_a_link(tmp_path: Path) -> None:
    """Transcripts are read by their resolved paths."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    for base in ("data", "disk"):
        assert names.of_path(tmp_path / "data", str(tmp_path / base / "sessions/family/.claude/x.jsonl")) == "family"


@pytest.mark.parametrize("session_id", ["", "..", "../x", "a/b", "a.b", ".x", "a\n", "x" * 129])
def test_a_bad_session_id_is_refused(session_id: str) -> None:
    with pytest.raises(BadInput):
        names.GroupPaths(Path("/data"), "a").transcript(session_id)
