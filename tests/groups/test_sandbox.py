"""Command lines of sandboxes: as text against the documented mounts, and bubblewrap for real."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from backstory.errors import BackstoryError, BadSetting
from backstory.groups import sandbox
from backstory.groups.names import GroupPaths
from backstory.groups.sandbox import Mount

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with two groups, the main group and what no agent may see."""
    data = tmp_path / "home" / ".backstory"
    for group in ("main", "ours", "theirs"):
        paths = GroupPaths(data, group)
        for folder in (paths.conversations, paths.input, paths.state, paths.shared):
            folder.mkdir(parents=True, exist_ok=True)
        (paths.conversations / "2026-02-20-tax.md").write_text(f"said in {group}")
        (paths.state / "settings.json").write_text("{}")
    for name in ("token", "config.toml", "backstory.db", "passwd"):
        (data / name).write_text(sandbox.PASSWD if name == "passwd" else "secret")
    return data


def mounts(data: Path, group: str, project: Path | None = None) -> tuple[Mount, ...]:
    return sandbox.mounts(GroupPaths(data, group), project)


def inside(data: Path, group: str, script: str, project: Path | None = None) -> str:
    """What a shell prints in the sandbox of a group."""
    seen = mounts(data, group, project)
    command = sandbox.bubblewrap(Path("/bin/sh"), seen, sandbox.hidden(data, seen), data / "passwd")
    done = subprocess.run(
        [*sandbox.with_path(command), "-c", script],
        env={"PATH": sandbox.PATH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout + done.stderr


def test_a_group_sees_its_own_directories() -> None:
    data = Path("/data")
    assert {(str(each.outside), each.inside, each.is_writable) for each in mounts(data, "ours")} == {
        ("/data/groups/ours", "/workspace/group", True),
        ("/data/groups/global", "/workspace/global", False),
        ("/data/ipc/ours", "/workspace/ipc", True),
        ("/data/ipc/ours/input", "/workspace/ipc/input", False),
        ("/data/sessions/ours/.claude", "/home/node/.claude", True),
        (str(Path(sandbox.__file__).with_name("mcp_server.py")), "/opt/backstory/mcp_server.py", False),
    }


def test_the_main_group_also_sees_all_groups_and_its_project(tmp_path: Path) -> None:
    more = set(mounts(tmp_path / "data", "main", tmp_path)) - set(mounts(tmp_path / "data", "main"))
    assert more == {Mount(tmp_path.resolve(), "/workspace/project", is_writable=True)}
    assert Mount(tmp_path / "data" / "groups", "/workspace/groups") in mounts(tmp_path / "data", "main")
    assert not {"/workspace/project", "/workspace/groups"} & {
        each.inside for each in mounts(tmp_path, "ours", tmp_path)
    }


@pytest.mark.parametrize("project", ["/", "/proc", "/proc/self/root", "/usr/.."])
def test_a_project_with_the_processes_of_the_machine_is_refused(data: Path, project: str) -> None:
    """Their files, with those of the worker, could be reached from there."""
    with pytest.raises(BadSetting, match="which no agent may see"):
        mounts(data, "main", Path(project))


def test_a_project_in_the_data_directory_is_refused(data: Path) -> None:
    link = data.parent / "link"
    link.symlink_to(data)
    for project in (data, data / "sessions", link, data / "missing"):
        with pytest.raises(BadSetting):
            mounts(data, "main", project)


def test_a_data_directory_among_the_programs_of_the_system_is_covered() -> None:
    assert sandbox.hidden_in_system(Path("/usr/local/var/backstory")) == ("/usr/local/var/backstory",)
    assert sandbox.hidden_in_system(Path("/home/ann/.backstory")) == ()


def test_the_prefix_of_python_is_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It may be a home directory. Only the program and its library are bound."""
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    command = sandbox.bubblewrap(Path("/bin/sh"), (), (), tmp_path / "passwd")
    assert str(tmp_path / "bin" / f"python3.{sys.version_info.minor}") in command
    assert str(tmp_path) not in command


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_container_has_the_documented_mounts(engine: str, data: Path, tmp_path: Path) -> None:
    """As text: neither is installed where tests run."""
    seen = mounts(data, "main", tmp_path / "home")
    covered = sandbox.hidden(data, seen)
    box = sandbox.Container(engine, "python:3.13", "backstory-main")
    command = box.command(Path("/x,y/claude"), seen, covered, {"HOME": "/home/node"}, ["B", "A"])
    text = " ".join(command)
    assert command[:3] == (engine, "run", "--rm")
    assert command[-2:] == ("python:3.13", "/opt/backstory/claude")
    for each in seen:
        mode = "" if each.is_writable else ",readonly"
        assert f"--mount type=bind,source={each.outside},destination={each.inside}{mode}" in text
    assert '--mount type=bind,"source=/x,y/claude",destination=/opt/backstory/claude,readonly' in text
    assert "--mount type=tmpfs,destination=/workspace/project/.backstory" in text
    assert "--env HOME=/home/node --env A --env B" in text
    assert "--workdir /workspace/group" in text
    assert ("--userns keep-id" in text) == (engine == "podman")


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for program, name in (("bwrap", "bubblewrap"), ("docker", "Docker"), ("podman", "Podman")):
        with pytest.raises(BackstoryError, match=f"{name} is not installed") as error:
            sandbox.with_path([program])
        assert "Install it" in error.value.hint


@needs_bubblewrap
def test_bubblewrap_shows_a_group_only_its_own(data: Path, tmp_path: Path) -> None:
    """One sandbox, many attempts. It writes to its own directories, and nowhere else."""
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(data / "worker.sock"))
        said = inside(
            data,
            "ours",
            f"""
            cat /workspace/group/conversations/*.md; echo; id -un; pwd; ls /workspace
            echo written > /workspace/group/note; echo ours > /workspace/ipc/x; echo more > /home/node/.claude/y
            echo no > /workspace/global/CLAUDE.md
            for place in {data} {data.parent} {tmp_path} /workspace/project /workspace/groups /root/.ssh /etc/shadow; do
                ls $place
            done
            cat {data}/token {data}/groups/theirs/conversations/*
            find / -name '*.md' -path '*conversations*' 2>/dev/null
            find / \\( -name worker.sock -o -name backstory.db -o -name token -o -name config.toml \\) 2>/dev/null
            {sandbox.python()} -I -S -c 'import json, sys; print("python", sys.version_info[0])'
            """,
        )
    assert "said in ours\nnode\n/workspace/group\nglobal\ngroup\nipc\n" in said
    assert "said in theirs" not in said
    assert "secret" not in said
    assert "Read-only file system" in said
    assert said.count("No such file or directory") == 9
    assert "\n/workspace/group/conversations/2026-02-20-tax.md\npython 3" in said
    assert (data / "groups" / "ours" / "note").read_text() == "written\n"
    assert (data / "ipc" / "ours" / "x").exists()
    assert (data / "sessions" / "ours" / ".claude" / "y").exists()


@needs_bubblewrap
def test_the_main_group_sees_the_others_and_not_the_rest_of_the_data_directory(data: Path, tmp_path: Path) -> None:
    """Even where its project contains the data directory."""
    (tmp_path / "home" / "shop.py").write_text("price = 12\n")
    said = inside(
        data,
        "main",
        "cat /workspace/project/shop.py /workspace/groups/theirs/conversations/*; ls -A /workspace/project/.backstory; "
        "echo mine > /workspace/project/new; cat /workspace/project/.backstory/token; ls /workspace; "
        "cat /workspace/sessions/theirs/.claude/settings.json; echo new > /workspace/groups/theirs/CLAUDE.md; "
        "for place in groups/new groups/theirs sessions/theirs sessions/theirs/.claude/new; do"
        "  (echo x > /workspace/$place) 2>/dev/null && echo WRITTEN; done; "
        "(rm -rf /workspace/groups/ours; mv /workspace/groups/theirs /workspace/groups/away; "
        "ln -sfT /home /workspace/groups/theirs; umount /workspace/groups/theirs) 2>/dev/null",
        tmp_path / "home",
    )
    assert "price = 12" in said
    assert "said in theirs" in said
    assert "secret" not in said
    assert "No such file" in said
    assert "global\ngroup\ngroups\nipc\nproject\nsessions\n{}" in said
    assert "WRITTEN" not in said
    assert (data / "groups" / "theirs" / "CLAUDE.md").read_text() == "new\n"
    assert sorted(path.name for path in (data / "groups").iterdir()) == ["global", "main", "ours", "theirs"]
    assert not any(path.is_symlink() for path in (data / "groups").iterdir())
    assert (tmp_path / "home" / "new").exists()
    assert (data / "token").read_text() == "secret"
