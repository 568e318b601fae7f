"""Hooks and rules go into an agent's settings and out again, and nobody else's line is touched."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.agents.install import FileChange
from backstory.agents.json_hooks import install, uninstall
from backstory.agents.json_text import Hook
from backstory.errors import SettingsUnreadable

HOOKS = {
    "SessionStart": Hook("'/data/bin/hook' claude-code SessionStart", 10),
    "PostToolUse": Hook("'/data/bin/hook' claude-code PostToolUse", 5, "*"),
    "Stop": Hook("'/data/bin/hook' claude-code Stop", 5),
}
OLDER = {event: Hook(f"'/old place/bin/hook' claude-code {event}", 3, hook.matcher) for event, hook in HOOKS.items()}
RULES = ("mcp__backstory__search", "mcp__backstory__timeline")
THEIRS = '{\n    "model": "opus",\n    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}\n}'


def ours(command: str) -> bool:
    return "/bin/hook' claude-code " in command


class Home:
    """A directory with a settings file and a record, and what is done to them."""

    def __init__(self, root: Path, text: str | None = None) -> None:
        self.path, self.record = root / "agent" / "settings.json", root / "data" / "installed.json"
        if text is not None:
            self.path.parent.mkdir()
            self.write(text)

    def write(self, text: str) -> None:
        self.path.write_bytes(text.encode())

    def edit(self, change: Callable[[Any], object]) -> None:
        """As an agent does it: read, change, lay out anew."""
        value = json.loads(self.text)
        change(value)
        self.write(json.dumps(value, indent=2, ensure_ascii=False) if "\\ud800" not in self.text else json.dumps(value))

    @property
    def text(self) -> str:
        return self.path.read_bytes().decode().removeprefix("\ufeff")

    @property
    def value(self) -> Any:
        return json.loads(self.text)

    def install(self, hooks: dict[str, Hook] = HOOKS, dry_run: bool = False) -> FileChange:
        return install(self.path, hooks, ours, self.record, dry_run, RULES)

    def uninstall(self, dry_run: bool = False) -> FileChange:
        return uninstall(self.path, ours, self.record, dry_run, RULES)


def commands(value: Any) -> list[tuple[str, str]]:
    """Every command in these settings with its event, whoever it belongs to."""
    return [
        (event, entry["command"])
        for event, groups in value.get("hooks", {}).items()
        for group in groups
        if isinstance(group, dict) and isinstance(group.get("hooks"), list)
        for entry in group["hooks"]
        if isinstance(entry, dict) and "command" in entry
    ]


def with_ours(value: Any) -> Any:
    """What settings ought to mean once installed, worked out the plain way."""
    for event, hook in HOOKS.items():
        group: dict[str, Any] = {} if hook.matcher is None else {"matcher": hook.matcher}
        group["hooks"] = [{"type": "command", "command": hook.command, "timeout": hook.timeout}]
        value.setdefault("hooks", {}).setdefault(event, []).append(group)
    allow = value.setdefault("permissions", {}).setdefault("allow", [])
    allow += [rule for rule in RULES if rule not in allow]
    return value


# Settings as people write them: any spacing, doubled keys, odd members, numbers and escapes of every look.
blank = st.sampled_from(["", "", " ", "\n", "\t", "\r\n  ", "\n\n    "])


def spaced(opener: str, parts: st.SearchStrategy[list[str]], closer: str) -> st.SearchStrategy[str]:
    def lay_out(drawn: tuple[list[str], list[str]]) -> str:
        inside, gaps = drawn
        around = [gaps[n % 8] + part + gaps[(n + 1) % 8] for n, part in enumerate(inside)]
        return opener + (",".join(around) or gaps[0]) + closer

    return st.tuples(parts, st.lists(blank, min_size=8, max_size=8)).map(lay_out)


def members(keys: list[str], values: st.SearchStrategy[str], most: int = 3) -> st.SearchStrategy[list[str]]:
    pair = st.tuples(st.sampled_from(keys), blank, blank, values)
    return st.lists(pair.map(lambda p: f"{p[0]}{p[1]}:{p[2]}{p[3]}"), max_size=most)


scalars = st.sampled_from(
    ["1", "1.50", "-0", "1E5", "123456789012345678901", "true", "null", '"é"', r'"\u00e9\/"', r'"\ud800"', r'"[\"{,"']
)
plain = st.recursive(
    scalars,
    lambda inner: (
        spaced("[", st.lists(inner, max_size=3), "]") | spaced("{", members(['"a"', '"b"', '"hooks"'], inner), "}")
    ),
    max_leaves=6,
)
entries = st.sampled_from(['{"type":"command","command":"lint"}', '{ "command" : "x", "timeout": 1.0 }', "null", '"?"'])
groups = st.one_of(
    spaced("[", st.lists(entries, max_size=2), "]").map(lambda hooks: f'{{"matcher": "Bash", "hooks": {hooks}}}'),
    spaced("[", st.lists(entries, max_size=2), "]").map(lambda hooks: f'{{"hooks":{hooks}}}'),
    st.sampled_from(["null", '"odd"', "{}", '{"hooks": 3}', "7"]),
)
events = spaced("[", st.lists(groups, max_size=3), "]")
hooks_member = spaced("{", members(['"PostToolUse"', '"Stop"', '"Notification"'], events), "}").flatmap(
    lambda hooks: st.sampled_from([f'"hooks": {hooks}', rf'"\u0068ooks":{hooks}'])
)
rules = spaced("[", st.lists(st.sampled_from(['"Bash(ls:*)"', f'"{RULES[0]}"', "3", "null"]), max_size=3), "]")
permissions_member = spaced("{", members(['"allow"', '"deny"'], rules), "}").map(lambda inner: f'"permissions":{inner}')
others = members(['"env"', '"model"', '"a b"'], plain)
documents = st.tuples(
    st.sampled_from(["", "\ufeff"]),
    blank,
    spaced(
        "{",
        st.tuples(others, st.lists(hooks_member | permissions_member, max_size=3), others).map(
            lambda p: [*p[0], *p[1], *p[2]]
        ),
        "}",
    ),
    blank,
).map("".join)


@settings(deadline=None)  # it waits for the disk
@given(documents)
def test_install_then_uninstall_is_byte_identical(text: str) -> None:
    """Whatever the file looks like: it means the same plus our hooks, twice is as good as once, and all goes back."""
    with tempfile.TemporaryDirectory() as root:
        home = Home(Path(root), text)
        before = home.value
        assert home.install().what == "installed"
        once = home.text
        assert json.dumps(home.value) == json.dumps(with_ours(before))
        assert home.install().what == "unchanged"
        assert home.text == once
        assert home.uninstall().what == "restored"
        assert home.path.read_bytes() == text.encode()
        assert not home.record.exists()


@settings(deadline=None)  # it waits for the disk
@given(documents)
def test_a_file_that_was_edited_since_loses_our_entries_alone(text: str) -> None:
    """The agent stores a setting and lays the file out anew: the setting stays, and so does all that was there."""
    with tempfile.TemporaryDirectory() as root:
        home = Home(Path(root), text)
        before = home.value
        home.install()
        home.edit(lambda value: value.update(added=True))
        assert home.uninstall().what == "removed"
        assert json.dumps(home.value) == json.dumps(before | {"added": True})


@settings(deadline=None)  # it waits for the disk
@given(documents)
def test_a_file_that_was_only_laid_out_anew_goes_back_to_its_bytes(text: str) -> None:
    """New indentation is no edit: what means the same as the original becomes the original."""
    with tempfile.TemporaryDirectory() as root:
        home = Home(Path(root), text)
        home.install()
        home.edit(lambda value: None)
        assert home.uninstall().what == "restored"
        assert home.path.read_bytes() == text.encode()


@settings(deadline=None)  # it waits for the disk
@given(documents)
def test_an_upgrade_replaces_stale_entries_and_still_leads_back(text: str) -> None:
    """Entries of an older shim never stand beside new ones; the way back is the same, edits in between included."""
    with tempfile.TemporaryDirectory() as root:
        home = Home(Path(root), text)
        before = home.value
        home.install(OLDER)
        assert home.install().what == "updated"
        assert json.dumps(home.value) == json.dumps(with_ours(before))
        home.edit(lambda value: value.update(added=True))
        home.install(OLDER)
        assert sorted(commands(home.value)) == sorted(
            commands(json.loads(text.removeprefix("\ufeff"))) + [(event, hook.command) for event, hook in OLDER.items()]
        )
        home.uninstall()
        assert json.dumps(home.value) == json.dumps(json.loads(text.removeprefix("\ufeff")) | {"added": True})


def test_a_file_that_was_not_there_is_gone_again(tmp_path: Path) -> None:
    """With the directories that were made for it, and with no temporary file left anywhere."""
    home = Home(tmp_path)
    assert home.install().before is None
    assert home.value == with_ours({})
    assert home.text.endswith("}\n")
    assert sorted(p.name for p in home.path.parent.iterdir()) == ["settings.json"]
    assert home.uninstall().what == "restored"
    assert [p.name for p in tmp_path.iterdir()] == ["data"]
    assert home.uninstall().what == "absent"


def test_a_directory_that_others_use_by_now_stays(tmp_path: Path) -> None:
    """We made it, but it is no longer only ours."""
    home = Home(tmp_path)
    home.install()
    (home.path.parent / "theirs").touch()
    home.uninstall()
    assert [p.name for p in home.path.parent.iterdir()] == ["theirs"]


def test_a_file_of_ours_goes_even_when_others_came_and_went(tmp_path: Path) -> None:
    """A setting added, an upgrade, the setting removed: there was no file at first, so there is none at last."""
    home = Home(tmp_path)
    home.install(OLDER)
    home.edit(lambda value: value.update(model="opus"))
    home.install()
    home.edit(lambda value: value.pop("model"))
    assert home.uninstall().after is None
    assert not home.path.parent.exists()


def test_a_file_of_ours_with_others_settings_stays(tmp_path: Path) -> None:
    """What the agent stored in a file that we made is the agent's."""
    home = Home(tmp_path)
    home.install()
    home.edit(lambda value: value.update(model="opus"))
    home.uninstall()
    assert home.value == {"model": "opus"}


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "{}", "{ }\n", '{"hooks": {}}', '{"hooks": {"Stop": [ ]}}'])
@pytest.mark.parametrize("edited", [False, True])
def test_what_was_empty_before_us_is_empty_after_us(tmp_path: Path, text: str, edited: bool) -> None:
    """Containers that the user had stay; ours go."""
    home = Home(tmp_path, text)
    home.install()
    if edited:
        home.edit(lambda value: None)
    home.uninstall()
    assert home.path.read_bytes() == text.encode()


def test_a_hook_that_the_user_put_into_our_group_stays(tmp_path: Path) -> None:
    """Only entries are ours, not the list they stand in."""
    home = Home(tmp_path, "{}")
    home.install()
    home.edit(lambda value: value["hooks"]["PostToolUse"][0]["hooks"].insert(0, {"type": "command", "command": "lint"}))
    assert home.install().what == "unchanged"
    home.uninstall()
    assert home.value == {
        "hooks": {"PostToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "lint"}]}]}
    }


def test_a_rule_that_somebody_deleted_stays_deleted(tmp_path: Path) -> None:
    """Neither a second install nor a repair brings it back; after an uninstall it is a new installation."""
    home = Home(tmp_path, '{"permissions": {"deny": ["Read(.env)"]}}')
    home.install()
    assert home.value["permissions"] == {"deny": ["Read(.env)"], "allow": [*RULES]}
    home.edit(lambda value: value["permissions"]["allow"].remove(RULES[0]))
    assert home.install(dry_run=True).what == "unchanged"
    assert home.install(OLDER).what == "updated"
    assert home.value["permissions"]["allow"] == [RULES[1]]
    home.edit(lambda value: value["permissions"]["allow"].append("Bash(ls)"))
    home.uninstall()
    assert home.value == {"permissions": {"deny": ["Read(.env)"], "allow": ["Bash(ls)"]}}
    home.install()
    assert home.value["permissions"]["allow"] == ["Bash(ls)", *RULES]


@pytest.mark.parametrize("text", ['{"permissions": []}', '{"permissions": {"allow": "all"}}'])
def test_rules_of_an_odd_shape_are_left_alone(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path, text)
    with pytest.raises(SettingsUnreadable, match="permissions"):
        home.install()
    assert home.text == text and not home.record.exists()


def test_entries_removed_by_hand_make_the_present_file_the_original(tmp_path: Path) -> None:
    """An old record does not bring back what the user has changed since."""
    home = Home(tmp_path, THEIRS)
    home.install()
    home.write('{"model": "haiku"}')
    assert home.install().what == "installed"
    home.uninstall()
    assert home.text == '{"model": "haiku"}'
    home.install()
    home.write('{"model":  "haiku"}')
    assert home.uninstall().what == "absent"
    assert home.text == '{"model":  "haiku"}'


@pytest.mark.parametrize(
    "record", [None, "", "[]", '{"origin": 3}', '{"origin": "{", "written": "", "made_file": 1, "made_dirs": []}']
)
def test_without_a_record_our_entries_are_found_by_their_command(tmp_path: Path, record: str | None) -> None:
    """The data directory may be gone: uninstall still works, and a new install never takes stale entries for theirs."""
    home = Home(tmp_path, THEIRS)
    for hooks in (OLDER, HOOKS):
        home.install(hooks)
        home.record.unlink()
        if record is not None:
            home.record.write_text(record)
    home.install(OLDER)
    home.uninstall()
    assert home.text == THEIRS


def test_doubled_and_misplaced_entries_become_one(tmp_path: Path) -> None:
    """A copy under another event, another matcher or a shadowed key is stale too."""
    stop, tool = json.dumps(HOOKS["Stop"].group), json.dumps(HOOKS["PostToolUse"].group)
    live = f'{{"Stop": [{stop}, {stop}], "Odd": [{tool}], "PostToolUse": [{tool.replace("*", "Bash")}], "Theirs": []}}'
    home = Home(tmp_path, f'{{"hooks": {{"SessionStart": [{stop}], "Stop": [{stop}]}}, "hooks": {live}}}')
    home.install()
    assert home.value == with_ours({"hooks": {"Theirs": []}})
    assert home.text.count("claude-code") == len(HOOKS)
