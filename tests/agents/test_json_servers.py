"""Our MCP server and skill in an agent's files: in and out again, with everything else left as it was found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from box import Box

from backstory.agents import json_servers as servers
from backstory.agents import skill
from backstory.errors import SettingsUnreadable

ENTRY = servers.server()
FILES = {
    "none": None,
    "empty": "",
    "blank": " \n\n",
    "object": "{}",
    "object with room": "{ }\n",
    "compact": '{"a":1,"b":[1,2]}',
    "two spaces": '{\n  "numStartups": 1.0,\n  "name": "\\u00fc"\n}',
    "four spaces": '{\n    "a": {\n        "b": 1\n    }\n}\n',
    "tabs and crlf": '{\r\n\t"a": 1\r\n}\r\n',
    "others": '{\n  "mcpServers": {\n    "other": {"command": "x", "env": {"KEY": "canary"}}\n  },\n  "z": 1\n}\n',
    "no others": '{"mcpServers": {  }, "z": 1}',
    "no others, lines": '{\n  "mcpServers": {\n  }\n}\n',
    "doubled": '{"mcpServers": {"other": {}}, "mcpServers": {"third": {}}}',
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_in_and_out_again_the_file_is_what_it_was(tmp_path: Path, text: str | None) -> None:
    """Byte for byte; installed twice it is there once; and nothing of the file is kept with us."""
    path, record = tmp_path / "made" / ".claude.json", tmp_path / "kept" / "record"
    if text is not None:
        path.parent.mkdir()
        path.write_bytes(text.encode())
    assert servers.install(path, ENTRY, record, dry_run=True).what == "installed"
    assert not record.exists() and path.exists() == (text is not None)
    servers.install(path, ENTRY, record)
    once = path.read_bytes()
    assert json.loads(once)["mcpServers"]["backstory"] == ENTRY
    assert servers.install(path, ENTRY, record).what == "unchanged"
    assert path.read_bytes() == once
    assert b"canary" not in record.read_bytes()
    assert servers.uninstall(path, record, dry_run=True).what == "removed"
    assert path.read_bytes() == once
    servers.uninstall(path, record)
    assert (path.read_bytes() if path.exists() else None) == (None if text is None else text.encode())
    assert path.parent.exists() == (text is not None) and not record.exists()
    assert servers.uninstall(path, record).what == "absent"


def test_what_others_added_since_stays(tmp_path: Path) -> None:
    """The agent writes this file all the time, in its own layout."""
    path, record = tmp_path / ".claude.json", tmp_path / "record"
    servers.install(path, ENTRY, record)
    value = json.loads(path.read_bytes())
    value["mcpServers"]["another"] = {"command": "x"}
    path.write_text(json.dumps({"numStartups": 3} | value, indent=1))
    assert servers.install(path, ENTRY, record).what == "unchanged"
    servers.uninstall(path, record)
    assert json.loads(path.read_bytes()) == {"numStartups": 3, "mcpServers": {"another": {"command": "x"}}}


def test_an_older_entry_of_ours_is_brought_up_to_date_and_somebody_elses_stays(tmp_path: Path) -> None:
    """Known by the program that it names."""
    path, record = tmp_path / ".claude.json", tmp_path / "record"
    servers.install(path, servers.server("/elsewhere/bin/backstory-mcp"), record)
    assert servers.install(path, ENTRY, record).what == "updated"
    assert json.loads(path.read_bytes())["mcpServers"]["backstory"] == ENTRY
    servers.uninstall(path, record)
    assert not path.exists()
    theirs = '{"mcpServers": {"backstory": {"command": "/usr/bin/theirs"}}}'
    path.write_text(theirs)
    assert servers.install(path, ENTRY, record).what == "unchanged"
    assert servers.uninstall(path, record).what == "absent"
    assert path.read_text() == theirs


@pytest.mark.parametrize("text", ["[]", "{ not json", '{"mcpServers": []}', '"x"'])
def test_a_file_that_is_not_what_it_should_be_is_not_touched(tmp_path: Path, text: str) -> None:
    """A sentence, and nothing changed."""
    path = tmp_path / ".claude.json"
    path.write_text(text)
    with pytest.raises(SettingsUnreadable, match="nothing was changed"):
        servers.install(path, ENTRY, tmp_path / "record")
    assert path.read_text() == text and not (tmp_path / "record").exists()


def test_the_skill_is_ours_until_somebody_changes_it(tmp_path: Path) -> None:
    """Written, brought up to date, taken away with its folders; what somebody wrote stays."""
    path, record = tmp_path / "skills" / "backstory" / "SKILL.md", tmp_path / "record"
    assert skill.install(path, record).what == "installed"
    assert path.read_bytes() == skill.text() and skill.install(path, record).what == "unchanged"
    assert skill.uninstall(path, record).what == "removed"
    assert not path.parent.parent.exists() and not record.exists()
    skill.install(path, record)
    path.write_text("my own words")
    assert skill.install(path, record).what == "unchanged"
    assert skill.uninstall(path, record).what == "absent"
    assert path.read_text() == "my own words"


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(f.relative_to(folder)): f.read_bytes() if f.is_file() else None for f in folder.rglob("*")}


@pytest.mark.parametrize("scope", ["user", "project"])
def test_install_brings_hooks_server_and_skill_and_uninstall_takes_them(box: Box, scope: str) -> None:
    """`--dry-run` names all three files and `--diff` shows every line; neither changes anything. Afterwards no file or
    folder is left or changed."""
    (box.home / ".claude.json").write_text('{"numStartups": 1}')
    before = tree(box.home), tree(box.project)
    named = box.cli("install", "--scope", scope, "--dry-run").stdout.splitlines()
    assert len(named) == 4 and "(skill): +" in named[2] and named[2].endswith(" lines, a new file")
    shown = box.cli("install", "--scope", scope, "--diff").stdout
    assert (tree(box.home), tree(box.project)) == before
    for part in ("SessionStart", "mcpServers", "# What earlier sessions know"):
        assert part in shown
    box.cli("install", "--scope", scope)
    place = box.home if scope == "user" else box.project
    there = json.loads((place / (".claude.json" if scope == "user" else ".mcp.json")).read_text())
    assert there["mcpServers"]["backstory"] == ENTRY
    assert (place / ".claude" / "skills" / "backstory" / "SKILL.md").exists()
    assert "already" in box.cli("install", "--scope", scope).stdout
    named = box.cli("uninstall", "--scope", scope, "--dry-run").stdout.splitlines()
    assert named[2].endswith(" lines, the file goes")
    box.cli("uninstall", "--scope", scope)
    after = {name: value for name, value in tree(box.home).items() if not name.startswith(".backstory")}
    assert (after, tree(box.project)) == before


def test_install_changes_nothing_if_one_of_the_files_can_not_be_read(box: Box) -> None:
    """Not the hooks either."""
    (box.home / ".claude.json").write_text("{ not json")
    refused = box.cli("install", check=False)
    assert refused.returncode == 1 and "nothing was changed" in refused.stderr
    assert set(tree(box.home)) == {".claude.json"}


def test_another_data_directory_is_named(box: Box) -> None:
    """The agent's environment may not say where it is."""
    box.settings["BACKSTORY_DATA_DIR"] = str(box.root / "elsewhere")
    box.cli("install")
    there = json.loads((box.home / ".claude.json").read_text())
    assert there["mcpServers"]["backstory"]["command"] == str(box.root / "elsewhere" / "bin" / "backstory-mcp")
    box.cli("uninstall")
    assert not (box.home / ".claude.json").exists() and not (box.home / ".claude").exists()
