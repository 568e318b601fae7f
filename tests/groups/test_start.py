"""How the agent of a group is started: its directories, its variables, its sandbox."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from claude import binary

from backstory.errors import BackstoryError
from backstory.groups import sandbox, start, state_dir
from backstory.groups.ipc_files import CLOSE, IpcFiles
from backstory.groups.messages import put_message, take_close, take_messages
from backstory.groups.model_env import model_variables
from backstory.groups.names import GroupPaths
from backstory.groups.start import GroupQuery
from backstory.sessions import Options
from backstory.settings import Settings

needs_claude = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")
KEY = {"ANTHROPIC_API_KEY": "sk-secret"}


@pytest.fixture
def paths(tmp_path: Path) -> GroupPaths:
    return GroupPaths(tmp_path / "data", "ours")


def test_no_agent_can_hold_up_the_start_of_another(paths: GroupPaths, tmp_path: Path) -> None:
    """An agent can lock every directory that it sees, also those that it only reads. The main group sees most."""
    both = (paths, GroupPaths(paths.data, "main"))
    for each in both:
        state_dir.prepare(each, tmp_path / "none")
    seen = {mount.outside for each in both for mount in sandbox.mounts(each) if mount.outside.is_dir()}
    folders = {folder for top in seen for folder in (top, *top.rglob("*")) if folder.is_dir()}
    assert paths.state.parent in folders
    with ThreadPoolExecutor(1) as pool, ExitStack() as opened:
        for folder in folders:
            handle = os.open(folder, os.O_RDONLY)
            opened.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        pool.submit(state_dir.prepare, paths, tmp_path / "none").result(timeout=10)


def test_the_directories_are_made_once_and_skills_each_time(paths: GroupPaths, tmp_path: Path) -> None:
    skills = tmp_path / "skills"
    (skills / "tea").mkdir(parents=True)
    (skills / "tea" / "SKILL.md").write_text("one")
    state_dir.prepare(paths, skills)
    settings = json.loads((paths.state / "settings.json").read_text())
    assert settings["cleanupPeriodDays"] > 10_000
    assert settings["env"]["CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS"] == "1"
    assert "`conversations/` folder contains searchable history" in (paths.folder / "CLAUDE.md").read_text()
    assert (paths.shared / "CLAUDE.md").read_text() == ""
    for folder in (paths.folder, paths.state, paths.ipc, paths.input):
        assert folder.stat().st_mode & 0o077 == 0
    (paths.folder / "CLAUDE.md").write_text("ours now")
    (paths.state / "settings.json").write_text("{}")
    (skills / "tea" / "SKILL.md").write_text("two")
    shutil.rmtree(paths.state / "skills" / "tea")
    os.mkfifo(paths.state / "skills" / "tea")
    (paths.state / "skills" / "own").mkdir()
    state_dir.prepare(paths, skills)
    assert (paths.folder / "CLAUDE.md").read_text() == "ours now"
    assert (paths.state / "settings.json").read_text() == "{}"
    assert (paths.state / "skills" / "tea" / "SKILL.md").read_text() == "two"
    assert (paths.state / "skills" / "own").is_dir()


def test_nothing_is_written_or_read_through_a_link(paths: GroupPaths, tmp_path: Path) -> None:
    """An agent may have placed it in the run before."""
    skills, outside = tmp_path / "skills", tmp_path / "outside"
    (skills / "tea").mkdir(parents=True)
    outside.mkdir()
    (outside / "tea").mkdir()
    (outside / "token").write_text("secret")
    state_dir.prepare(paths, tmp_path / "none")
    (paths.state / "skills").symlink_to(outside)
    (paths.state / "settings.json").unlink()
    (paths.state / "settings.json").symlink_to(outside / "new")
    state_dir.prepare(paths, skills)
    assert (paths.state / "skills" / "tea").is_dir()
    assert sorted(each.name for each in outside.iterdir()) == ["tea", "token"]
    (paths.shared / "CLAUDE.md").unlink()
    (paths.shared / "CLAUDE.md").symlink_to(outside / "token")
    assert state_dir.shared_memory(paths) == ""
    paths.state.rename(tmp_path / "state")
    paths.state.symlink_to(outside)
    with pytest.raises(BackstoryError, match="is a link or a file"):
        state_dir.prepare(paths, skills)


def test_messages_come_in_the_order_of_their_files(paths: GroupPaths) -> None:
    """A file that is no message is set aside. A `_close` from before is removed at the start."""
    state_dir.prepare(paths, paths.data / "skills")
    files = IpcFiles(paths)
    for text in ("one", "two", "  "):
        put_message(files, text)
    for name, data in (("0.json", "[]"), ("1.json", "{"), ("2.json", '{"type": "other", "text": "x"}')):
        (paths.input / name).write_text(data)
    (paths.input / CLOSE).touch()
    assert take_messages(files) == ["one", "two"]
    assert take_messages(files) == []
    assert len(list(paths.errors.iterdir())) == 3
    state_dir.prepare(paths, paths.data / "skills")
    assert not take_close(files)


def test_an_agent_without_credentials_is_not_started(paths: GroupPaths) -> None:
    with pytest.raises(BackstoryError, match="no credentials") as error:
        start.check_credentials(paths, {})
    assert "ANTHROPIC_API_KEY" in error.value.hint
    start.check_credentials(paths, KEY)
    given = model_variables(KEY | {"ANTHROPIC_BASE_URL": "http://x", "AWS_SECRET_ACCESS_KEY": "no", "HOME": "/"})
    assert given == KEY | {"ANTHROPIC_BASE_URL": "http://x"}


def test_no_agent_is_started_beside_a_worker_that_trusts_everybody() -> None:
    """It could reach the worker over the network that it shares."""
    with pytest.raises(BackstoryError, match="`auth` is off"):
        start.check_auth(Settings(auth="off"))
    start.check_auth(Settings())


def options(paths: GroupPaths, sandbox: str, **variables: str) -> Options:
    """The options of a first query."""
    query = GroupQuery(prompt="Hello.", callbacks={}, on_stderr=lambda _: None)
    settings = Settings(data_dir=paths.data, group_sandbox=sandbox)
    return start.options(settings, paths, KEY | variables, query)


@needs_claude
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_container_gets_its_variables_by_name(
    engine: str, paths: GroupPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others can read a command line, so no secret is in it."""
    program = tmp_path / "bin" / engine
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("SECRET_OF_HOST", "x")
    certificate = tmp_path / "ca.pem"
    certificate.touch()
    made = options(paths, engine, SSL_CERT_FILE=str(certificate))
    assert made.sandbox
    command = " ".join(made.sandbox.command)
    assert command.startswith(f"{program} run --rm")
    assert "sk-secret" not in command
    assert "--env ANTHROPIC_API_KEY" in command
    assert "--env HOME=/home/node" in command
    assert "--env CLAUDE_CONFIG_DIR=/home/node/.claude" in command
    assert f"source={certificate.resolve()},destination={certificate},readonly" in command
    assert made.environment()["ANTHROPIC_API_KEY"] == "sk-secret"
    assert "SECRET_OF_HOST" not in made.environment()
    assert made.permission_mode == "bypassPermissions"


@needs_claude
def test_without_a_sandbox_the_rules_of_the_agent_remain(paths: GroupPaths) -> None:
    """Its transcripts are where those of a sandbox are."""
    state_dir.prepare(paths, paths.data / "skills")
    made = options(paths, "none")
    assert made.permission_mode == "acceptEdits"
    assert made.sandbox and made.sandbox.command == (str(binary()),)
    assert made.environment()["CLAUDE_CONFIG_DIR"] == str(paths.state)
    (link,) = [each for each in (paths.state / "projects").iterdir() if each.is_symlink()]
    assert link.resolve() == paths.transcript("x").parent.resolve()


@needs_claude
def test_a_script_is_no_program_for_a_sandbox(paths: GroupPaths, tmp_path: Path) -> None:
    script = tmp_path / "claude"
    script.write_text("#!/usr/bin/env node\n")
    settings = replace(Settings(data_dir=paths.data), claude_path=str(script))
    with pytest.raises(BackstoryError, match="is a script"):
        start.options(settings, paths, KEY, GroupQuery(prompt="Hello.", callbacks={}, on_stderr=lambda _: None))
