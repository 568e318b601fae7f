"""The settings file as a file: refusals, upgrades, links, modes, dry runs, and others who write at the same time."""

from __future__ import annotations

import os
import stat
from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import patch

import pytest

from backstory.agents.install import ATTEMPTS, FileChange
from backstory.agents.json_hooks import install, uninstall
from backstory.agents.json_text import Hook
from backstory.errors import SettingsUnreadable

HOOKS = {"Stop": Hook("'/data/bin/hook' claude-code Stop", 5), "PreCompact": Hook("'/data/bin/hook' é", 5, "*")}
THEIRS = b'{"model": "opus"}'


def ours(command: str) -> bool:
    return "/bin/hook' " in command


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "agent" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(THEIRS)
    return path


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "data" / "installed.json"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        # Python 3.13 names the trailing comma, earlier versions what stands behind it.
        (b'{\n  "a": 1,\n}', "line (3, column 1|2, column 9)"),
        (b'{\n  // no\n  "a": 1}', "line 2, column 3"),
        (b"{} {}", "line 1, column 4"),
        (b'{"key": "SECRET" oops}', "line 1, column 18"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b"[]", "something other than a JSON object"),
        (b'{"hooks": []}', '"hooks" that is not an object'),
        (b'{"hooks": null}', '"hooks" that is not an object'),
        (b'{"hooks": {"Stop": {}}}', 'hooks for "Stop" that are not a list'),
        (b'{"a": "\xff"}', "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_refused_and_left_alone(path: Path, record: Path, content: bytes, words: str) -> None:
    """One sentence with the place in it, a hint, and not a byte changed."""
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    with pytest.raises(SettingsUnreadable, match=words) as refusal:
        install(path, HOOKS, ours, record)
    assert str(path) in str(refusal.value)
    assert str(refusal.value).endswith(".")
    assert "SECRET" not in str(refusal.value)
    assert refusal.value.hint
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (content, 1)
    assert not record.exists()


def test_uninstall_refuses_what_it_cannot_read_and_keeps_the_record(path: Path, record: Path) -> None:
    """So that it can be tried again once the file is mended."""
    install(path, HOOKS, ours, record)
    mended = path.read_bytes()
    path.write_bytes(mended[:-1])
    with pytest.raises(SettingsUnreadable, match="line 1"):
        uninstall(path, ours, record)
    assert path.read_bytes() == mended[:-1]
    path.write_bytes(mended)
    uninstall(path, ours, record)
    assert path.read_bytes() == THEIRS


@pytest.mark.parametrize("content", [b"[]", b'{"hooks": 1}', b'{"hooks": {"Stop": null}}', b'"text"'])
def test_uninstall_leaves_odd_shapes_be(path: Path, record: Path, content: bytes) -> None:
    """They hold nothing of ours, so there is nothing to refuse."""
    path.write_bytes(content)
    assert uninstall(path, ours, record).what == "absent"
    assert path.read_bytes() == content


def test_what_is_not_a_file_is_refused(tmp_path: Path, record: Path) -> None:
    """A directory, a pipe (which would keep us waiting) and a path through a file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "file" / "settings.json"):
        with pytest.raises(SettingsUnreadable):
            install(path, HOOKS, ours, record)
    assert not record.exists()


def test_a_hook_that_could_not_be_found_again_is_a_mistake(path: Path, record: Path) -> None:
    """Else it would be added once more with every install."""
    with pytest.raises(ValueError, match="ours"):
        install(path, {"Stop": Hook("stranger", 1)}, ours, record)
    assert path.read_bytes() == THEIRS


def test_a_dry_run_writes_nothing(path: Path, record: Path, tmp_path: Path) -> None:
    """It tells what would be done, and that is then what is done."""

    def files() -> list[tuple[str, int]]:
        return sorted((str(p), p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))

    def rehearse(path: Path) -> None:
        before = files()
        planned = install(path, HOOKS, ours, record, dry_run=True)
        assert files() == before
        assert planned == install(path, HOOKS, ours, record)
        assert planned.diff().count("/data/bin/hook") == len(HOOKS)
        before = files()
        planned = uninstall(path, ours, record, dry_run=True)
        assert files() == before
        assert planned == uninstall(path, ours, record)

    rehearse(path)
    rehearse(tmp_path / "none" / "yet" / "settings.json")
    assert not (tmp_path / "none").exists()


def test_a_diff_names_missing_files_and_missing_line_ends() -> None:
    """The common form, which other tools can read."""
    assert FileChange(Path("s"), None, b"a\n", "installed").diff() == "--- /dev/null\n+++ s\n@@ -0,0 +1 @@\n+a\n"
    assert "-a\n\\ No newline at end of file\n+b\n" in FileChange(Path("s"), b"a", b"b\n", "updated").diff()
    assert FileChange(Path("s"), b"a", b"a", "unchanged").diff() == ""


def test_an_upgrade_without_edits_leads_back_to_the_first_bytes(path: Path, record: Path) -> None:
    """An upgrade changes only what is new in our entries, in place, and drops the events we no longer listen to."""
    older = {"Gone": Hook("'/old/bin/hook' x", 1), "Stop": Hook("'/old/bin/hook' claude-code Stop", 5)}
    install(path, older, ours, record)
    before = path.read_bytes()
    install(path, {"Stop": HOOKS["Stop"]} | {"Gone": older["Gone"]}, ours, record)
    assert path.read_bytes() == before.replace(b"'/old/bin/hook' claude", b"'/data/bin/hook' claude")
    install(path, HOOKS, ours, record)
    assert b"Gone" not in path.read_bytes()
    uninstall(path, ours, record)
    assert path.read_bytes() == THEIRS


def test_an_event_that_we_leave_keeps_the_list_it_had(path: Path, record: Path) -> None:
    """The user's empty list is empty again after the upgrade, and after an edit and our end."""
    path.write_bytes(b'{\n  "hooks": {\n    "Stop": []\n  }\n}')
    install(path, HOOKS, ours, record)
    install(path, {"PreCompact": HOOKS["PreCompact"]}, ours, record)
    assert b'"Stop": [],' in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(b"{", b'{ "x": 1,', 1))
    uninstall(path, ours, record)
    assert path.read_bytes() == b'{ "x": 1,\n  "hooks": {\n    "Stop": []\n  }\n}'


def test_a_lost_record_is_written_again(path: Path, record: Path) -> None:
    """By an install that finds its hooks in place and touches nothing else."""
    install(path, HOOKS, ours, record)
    os.utime(path, ns=(1, 1))
    record.unlink()
    assert install(path, HOOKS, ours, record).what == "unchanged"
    assert record.exists()
    assert path.stat().st_mtime_ns == 1


def test_bytes_that_we_wrote_go_back_even_if_we_no_longer_know_them(path: Path, record: Path) -> None:
    """A later version may have forgotten what our commands once looked like; the record has not."""
    install(path, HOOKS, ours, record)
    assert uninstall(path, lambda command: False, record).what == "restored"
    assert path.read_bytes() == THEIRS


def test_a_file_that_the_user_has_made_theirs_is_not_deleted(tmp_path: Path, record: Path) -> None:
    """We made it once; they emptied it by hand, so from then on it is their empty file."""
    path = tmp_path / "settings.json"
    install(path, HOOKS, ours, record)
    path.write_bytes(b"{}")
    install(path, HOOKS, ours, record)
    path.write_bytes(path.read_bytes() + b"\n\n")
    uninstall(path, ours, record)
    assert path.read_bytes() == b"{}"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_is_kept(path: Path, record: Path, mode: int) -> None:
    """In and out; the record, which holds a copy, is for its owner alone."""
    path.chmod(mode)
    install(path, HOOKS, ours, record)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700
    uninstall(path, ours, record)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_mode_that_the_umask_gives(tmp_path: Path, record: Path) -> None:
    """As if the agent itself had made it."""
    old = os.umask(0o027)
    try:
        install(tmp_path / "settings.json", HOOKS, ours, record)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "settings.json").stat().st_mode) == 0o640


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link(path: Path, record: Path, tmp_path: Path, there: bool) -> None:
    """People keep their settings among their dotfiles; what is written is the file at the end, even a missing one."""
    target = path if there else tmp_path / "dotfiles" / "settings.json"
    link = tmp_path / "link.json"
    link.symlink_to(os.path.relpath(target, tmp_path))
    install(link, HOOKS, ours, record)
    assert link.is_symlink()
    assert b"/data/bin/hook" in target.read_bytes()
    uninstall(link, ours, record)
    assert link.is_symlink()
    assert (target.read_bytes() == THEIRS) if there else not target.parent.exists()


def test_a_change_at_the_same_moment_is_not_lost(path: Path, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody writes between our reading and our writing: we begin again with what they wrote."""
    sync = os.fsync

    def disturb(descriptor: int) -> None:
        sync(descriptor)
        if path.read_bytes() == THEIRS:
            path.write_bytes(b'{"model": "haiku"}')

    monkeypatch.setattr(os, "fsync", disturb)
    install(path, HOOKS, ours, record)
    assert path.read_bytes().startswith(b'{"model": "haiku", "hooks"')
    uninstall(path, ours, record)
    assert path.read_bytes() == b'{"model": "haiku"}'


def test_a_file_that_never_holds_still_is_given_up(path: Path, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few attempts, with their last word in it and no temporary file beside it."""
    writes: list[bytes] = []

    def disturb(_: int) -> None:
        writes.append(b'{"n": %d}' % len(writes))
        path.write_bytes(writes[-1])

    monkeypatch.setattr(os, "fsync", disturb)
    with pytest.raises(SettingsUnreadable, match="another program"):
        install(path, HOOKS, ours, record)
    assert len(writes) >= ATTEMPTS
    assert path.read_bytes() == writes[-1]
    assert list(path.parent.iterdir()) == [path]
    assert not record.exists()


def full_disk() -> AbstractContextManager[object]:
    """A disk with room for our record and not for the settings."""

    def fail(source: Path, destination: Path) -> None:
        if Path(destination).name == "settings.json":
            raise OSError(28, "No space left on device")
        source.rename(destination)

    return patch.object(os, "replace", fail)


@pytest.mark.parametrize("new", [True, False])
def test_a_failed_write_leaves_nothing_behind(path: Path, record: Path, new: bool) -> None:
    """The old file, whole, or no file and no directory; no record; and the next try succeeds."""
    target = path.parent / "new" / "settings.json" if new else path
    with full_disk(), pytest.raises(SettingsUnreadable, match="No space left"):
        install(target, HOOKS, ours, record)
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == THEIRS
    assert not record.exists()
    assert install(target, HOOKS, ours, record).what == "installed"
    assert uninstall(target, ours, record).what == "restored"


def test_a_failed_upgrade_keeps_the_older_hooks_and_their_record(path: Path, record: Path) -> None:
    """It is as if it had not been tried."""
    install(path, {"Stop": HOOKS["Stop"]}, ours, record)
    before = path.read_bytes(), record.read_bytes()
    with full_disk(), pytest.raises(SettingsUnreadable):
        install(path, HOOKS, ours, record)
    assert (path.read_bytes(), record.read_bytes()) == before
