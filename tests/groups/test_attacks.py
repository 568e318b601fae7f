"""What an agent can do from inside its sandbox to the host and to other groups: nothing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from box import Box
from house import House
from office import Office, needs_sandbox
from transcripts import Script

from backstory.agents import AGENTS, DEFAULT_AGENT
from backstory.agents.claude_code import resumable
from backstory.agents.claude_code.transcript_files import last_message
from backstory.agents.transcripts import Mark
from backstory.groups import sandbox, snapshots
from backstory.groups.ipc_files import IpcFiles
from backstory.groups.messages import put_message, take_close, take_messages
from backstory.groups.names import WORKSPACE, WORKSPACE_FOLDER, GroupPaths
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore

pytestmark = needs_sandbox
SECRET = "The vault of beta opens with 7391"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A machine with two groups; each of them has an archived session and an active one."""
    data = tmp_path_factory.mktemp("data")
    store = SqliteStore(data / "backstory.db")
    migrate(store)
    (data / "token").write_text("a token")
    (data / "config.toml").write_text("port = 1\n")
    yield House(data, store)
    store.close()


def furnish(house: House, name: str, words: str) -> GroupPaths:
    """A group that has something in every place."""
    paths = house.group(name)
    for folder in (paths.folder, paths.conversations, paths.state, paths.shared):
        folder.mkdir(parents=True, exist_ok=True)
    (paths.folder / "CLAUDE.md").write_text(f"{words}\n")

    async def talk() -> None:
        await house.talk(paths, words)
        await house.pointers.clear(name, words)
        await house.talk(paths, words)
        snapshots.write(IpcFiles(paths), await house.pointers.history(name), [], [])

    asyncio.run(talk())
    return paths


@pytest.fixture(scope="module")
def beta(house: House) -> GroupPaths:
    return furnish(house, "beta", SECRET)


@pytest.fixture
def alpha(house: House, beta: GroupPaths, request: pytest.FixtureRequest) -> GroupPaths:
    """A group of its own for each test."""
    return furnish(house, f"a-{abs(hash(request.node.name)) % 10**9}", "Nothing to hide")


def inside(paths: GroupPaths, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in the sandbox of a group, in the place of its agent."""
    passwd = paths.data / "passwd"
    passwd.write_text(sandbox.PASSWD)
    seen = sandbox.mounts(paths)
    command = sandbox.bubblewrap(Path("/bin/bash").resolve(), seen, sandbox.hidden(paths.data, seen), passwd)
    return subprocess.run(
        [*command, "-c", script, "attack", *words],
        env={"PATH": sandbox.PATH, "HOME": sandbox.HOME},
        capture_output=True,
        text=True,
        timeout=120,
    )


def everything(folder: Path) -> dict[str, bytes | str]:
    """Every entry below a directory with what is in it."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def of_beta(beta: GroupPaths) -> dict[str, dict[str, bytes | str]]:
    return {folder.name + str(at): everything(folder) for at, folder in enumerate((beta.folder, beta.state, beta.ipc))}


def test_nothing_of_the_host_can_be_named(alpha: GroupPaths, beta: GroupPaths) -> None:
    """Not by its path, not past the mounts, not through a process or a link, and not by looking everywhere."""
    data = alpha.data
    own = {data / "groups" / alpha.group, data / "sessions" / alpha.group / ".claude", data / "ipc" / alpha.group}
    named = [data, data / "token", data / "backstory.db", data / "config.toml", data / "worker.sock", data / "ipc"]
    named += [beta.folder, beta.conversations, beta.state, beta.ipc, beta.errors, *own]
    past = [f"/workspace/group/../{beta.group}", "/workspace/ipc/../beta", "/workspace/ipc/../errors"]
    past += [
        "/home/node/.claude/../../beta",
        "/workspace/groups",
        "/workspace/project",
        "/root/.profile",
        "/etc/shadow",
    ]
    past += [f"/proc/{process}/root{place}" for process in ("1", "self") for place in (data, beta.folder)]
    past += [f"/proc/self/cwd/../{beta.group}", f"/proc/1/cwd/../{beta.group}"]
    script = """
      for place in "$@"; do
        ls -d "$place" 2>/dev/null && echo "SEEN $place"
        ln -sfn "$place" /workspace/group/conversations/link
        ls /workspace/group/conversations/link/ 2>/dev/null && echo "SEEN by a link $place"
        cat /workspace/group/conversations/link 2>/dev/null && echo "READ by a link $place"
        ln "$place" /workspace/group/hard 2>/dev/null && echo "LINKED $place"
      done
      grep -rls 'vault of beta' /workspace /home /tmp /etc /opt /var /run /srv /mnt && echo "FOUND"
      ls /proc | grep -cE '^[0-9]+$'
    """
    done = inside(alpha, script, *map(str, named), *past)
    (processes,) = done.stdout.split("\n")[:-1] or [done.stderr]
    assert int(processes) < 10  # the sandbox's own; the host has hundreds
    seen = inside(alpha, "ls / /workspace /workspace/*/ /home /home/node -a; cat /proc/self/environ").stdout
    assert beta.group not in seen
    assert "a token" not in seen


def test_a_sandbox_changes_nothing_but_its_own(alpha: GroupPaths, beta: GroupPaths) -> None:
    """Its programs, the shared memory and the server are read-only, and there is no other process to signal."""
    (alpha.shared / "CLAUDE.md").write_text("Shared.\n")
    script = """
      for place in /workspace/global/written /usr/bin/written "$1"; do
        (echo x >> "$place") 2>/dev/null && echo "WRITTEN $place"
      done
      (echo x >> /workspace/global/CLAUDE.md) 2>/dev/null && echo "WRITTEN global"
      (echo x >> /opt/backstory/mcp_server.py) 2>/dev/null && echo "WRITTEN server"
      mount -o remount,rw /workspace/global 2>/dev/null && echo "REMOUNTED"
      kill -0 "$2" 2>/dev/null && echo "SIGNALLED"
      echo "done as $(id -u)"
    """
    done = inside(alpha, script, sandbox.python(), str(os.getpid()))
    assert done.stdout == "done as 1000\n", done.stderr
    assert everything(alpha.shared) == {"CLAUDE.md": b"Shared.\n"}


def test_a_sandbox_does_not_speak_for_its_user(alpha: GroupPaths) -> None:
    """It cannot leave messages to its own agent, take those of others, or end a run."""
    files = IpcFiles(alpha)
    put_message(files, "Of the user.")
    script = """
      cd /workspace/ipc
      (echo '{"type": "message", "text": "FORGED"}' > input/0.json; touch input/_close) 2>/dev/null
      rm -rf input/*; mv input away; rm -rf input; ln -sfn ../beta/input input; cat input/*.json
    """
    assert "Of the user." in inside(alpha, script).stdout
    assert take_messages(files) == ["Of the user."]
    assert not take_close(files)


def test_a_transcript_without_end_keeps_nobody_busy(house: House, alpha: GroupPaths) -> None:
    """Reading it would take hours, and its one line more memory than there is. It is as good as deleted."""

    async def host() -> None:
        now = await house.pointers.get(alpha.group)
        assert now.session_id
        os.truncate(alpha.transcript(now.session_id), 1 << 40)  # the limits of a sandbox would not allow it
        assert resumable.read(alpha.transcript(now.session_id)) is None
        with pytest.raises(OSError, match="too large"):
            list(AGENTS[DEFAULT_AGENT].transcripts.read(alpha.transcript(now.session_id), Mark(), True))
        entry = await house.pointers.clear(alpha.group)
        assert (entry.session_id, entry.transcript_available) == (now.session_id, False)

    asyncio.run(host())


def test_a_link_that_takes_the_place_of_a_transcript_while_it_is_read(house: House, alpha: GroupPaths) -> None:
    """The agent runs while the host reads its last message, so it can change the file after the host has looked."""
    beta = house.group("beta")
    own, theirs = (asyncio.run(house.pointers.get(each)).session_id for each in (alpha.group, beta.group))
    assert own
    assert theirs
    file, secret = alpha.transcript(own), beta.transcript(theirs)

    class Roots(tuple[Path, ...]):
        def __iter__(self) -> Iterator[Path]:
            file.unlink(missing_ok=True)
            file.symlink_to(secret)
            return super().__iter__()

    assert "Nothing to hide" in last_message(str(file), (alpha.state,))
    assert last_message(str(file), Roots((alpha.state,))) == ""
    assert file.is_symlink()


def test_the_worker_is_not_there_and_refuses(box: Box) -> None:
    """The network is shared, because the agent needs its model. The worker's port asks for the token."""
    box.start()
    (box.data / "groups" / "a").mkdir(parents=True)
    paths = GroupPaths(box.data, "a")
    IpcFiles(paths).prepare()
    for folder in (paths.folder, paths.state, paths.shared):
        folder.mkdir(parents=True, exist_ok=True)
    code = """
import sys, urllib.request, urllib.error, socket
def status(path, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}{path}", headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code
print(*(status(path) for path in sys.argv[3].split(",")))
print(status("/api/sessions", Authorization="Bearer wrong"))
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[2])
    print("CONNECTED")
except OSError as error:
    print(type(error).__name__)
"""
    routes = ["/api/sessions", "/api/search?query=x", "/api/groups", "/api/groups/beta/history", "/mcp"]
    words = [sandbox.python(), code, str(box.port), str(box.data / "worker.sock"), ",".join(routes)]
    done = inside(paths, '"$1" -I -S -c "${@:2}"', *words)
    statuses, wrong, connected = done.stdout.splitlines()
    assert set(statuses.split()) <= {"401", "403"}, done.stdout
    assert wrong == "401"
    assert connected == "FileNotFoundError"
    script = 'ls -a "$1" "$1/token"; find /workspace /home /tmp /etc /opt /var /run -name "backstory.db*"'
    assert inside(paths, script, str(box.data)).stdout == ""


def test_a_forged_report_tells_nothing_of_another_group(running: Box) -> None:
    """An agent can write into its own output, so it can report anything: a path that leads to a transcript of another
    group, directly or by a link that it placed, and the session of another group."""
    office = Office(running)
    office.create("alpha", "beta")
    alpha, beta = office.paths("alpha"), office.paths("beta")
    theirs = Script(str(uuid4()), WORKSPACE)
    theirs.prompt("What opens it?")
    theirs.says(SECRET)
    theirs.write(beta.transcript(theirs.session).parent)
    to_theirs = f"../../../../beta/.claude/projects/{WORKSPACE_FOLDER}/{theirs.session}"
    for path in (alpha.transcript("own"), alpha.transcript("own").parent / f"{to_theirs}.jsonl"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.symlink_to(f"{to_theirs}.jsonl")
        assert SECRET in path.read_text()  # so it leads there
        report = {"session_id": "own", "cwd": str(alpha.folder), "transcript_path": str(path)}
        running.hook("UserPromptSubmit", report | {"prompt": f"By {path.name}"})
        running.hook("Stop", report)
    running.settle()
    known = running.rows("SELECT content_session_id, project_key FROM sdk_sessions")
    assert {"content_session_id": "own", "project_key": "group:alpha"} in known
    own = "session_id = (SELECT id FROM sdk_sessions WHERE content_session_id = 'own')"
    tables = ("events", "turns", "chunks", "observations", "session_summaries", "user_prompts")
    assert "vault" not in str([running.rows(f"SELECT * FROM {table} WHERE {own}") for table in tables])  # noqa: S608

    real = {"session_id": theirs.session, "cwd": str(beta.folder), "source": "startup"}
    running.hook("SessionStart", real | {"transcript_path": str(beta.transcript(theirs.session))})
    forged = {"session_id": theirs.session, "cwd": str(alpha.folder), "transcript_path": str(alpha.transcript("own"))}
    running.hook("UserPromptSubmit", forged | {"prompt": "FORGED"})
    running.settle()
    assert "FORGED" not in str(running.rows("SELECT * FROM user_prompts"))


def test_links_placed_by_a_sandbox_lead_the_host_nowhere(house: House, alpha: GroupPaths, beta: GroupPaths) -> None:
    """In conversations/, in the transcript's place and in every folder that the host reads or writes. All of them would
    lead to beta on the host."""
    session = asyncio.run(house.pointers.get(alpha.group)).session_id
    theirs = asyncio.run(house.pointers.get(beta.group)).session_id
    before = of_beta(beta)
    script = f"""
      cd /home/node/.claude/projects/{WORKSPACE_FOLDER}
      ln -sf ../../../../beta/.claude/projects/{WORKSPACE_FOLDER}/{theirs}.jsonl {session}.jsonl
      cd /workspace/group
      rm -r conversations && ln -s ../beta/conversations conversations
      cd /workspace/ipc
      rm -r responses; ln -s ../beta/responses responses
      for file in session_history current_tasks available_groups; do ln -sf ../beta/$file.json $file.json; done
      ln -s ../../beta/session_history.json tasks/1.json
      ln -s ../../../backstory.db tasks/2.json
      echo '{{"type": "clear_session"}}' > tasks/3.json
      mkfifo tasks/4.json
      echo ok
    """
    assert inside(alpha, script).stdout == "ok\n"

    async def host() -> None:
        await house.requests(alpha).carry_out()
        history = await house.pointers.history(alpha.group)
        snapshots.write(IpcFiles(alpha), history, [], [])
        assert [entry.transcript_available for entry in history] == [False, True]

    asyncio.run(host())
    assert of_beta(beta) == before
    for folder in (alpha.folder, alpha.ipc):
        assert SECRET not in str({name: text for name, text in everything(folder).items()})
    assert "text" in json.loads((alpha.responses / "3.json").read_text())
    assert SECRET not in house.data.joinpath("ipc").joinpath(alpha.group, "session_history.json").read_text()


@pytest.mark.parametrize("folder", ["projects", f"projects/{WORKSPACE_FOLDER}"])
def test_a_folder_of_transcripts_that_leads_to_another_group(
    house: House, alpha: GroupPaths, beta: GroupPaths, folder: str
) -> None:
    """Sessions of beta are refused by their id. One that beta does not know any more has a transcript all the same."""
    theirs = asyncio.run(house.pointers.get(beta.group)).session_id
    script = Script(str(uuid4()), WORKSPACE)
    script.prompt(SECRET)
    script.write(beta.state / "projects" / WORKSPACE_FOLDER)
    up = "../" * (2 + folder.count("/"))
    placed = f"cd /home/node/.claude; rm -r {folder}; ln -s {up}beta/.claude/{folder} {folder}; echo ok"
    assert inside(alpha, placed).stdout == "ok\n"
    assert (alpha.state / folder).resolve() == (beta.state / folder).resolve()  # it would lead there
    before = of_beta(beta)

    async def host() -> None:
        now = await house.pointers.get(alpha.group)
        assert theirs
        assert not await house.pointers.set(alpha.group, theirs, now.generation)
        assert await house.pointers.set(alpha.group, script.session, now.generation)
        entry = await house.pointers.clear(alpha.group)
        assert not entry.transcript_available
        assert "vault" not in entry.name

    asyncio.run(host())
    assert of_beta(beta) == before
    assert "vault" not in str(everything(alpha.folder))
