"""What the agent of a group can do to the machine: what root may do, and what uses it up."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from box import until
from unprivileged import needs_bubblewrap

from backstory.errors import BackstoryError
from backstory.groups import drop_root, limits, sandbox
from backstory.groups.names import GroupPaths

pytestmark = needs_bubblewrap
#: An ordinary user of the machine, if the tests run as root.
ORDINARY = 60_901
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop its privileges")


@dataclass
class Group:
    """A group whose sandbox is started by root or by an ordinary user."""

    paths: GroupPaths
    user: int | None

    def command(self) -> Sequence[str]:
        seen, passwd = sandbox.mounts(self.paths), self.paths.data / "passwd"
        shell = Path("/bin/sh").resolve()
        return sandbox.with_path(sandbox.bubblewrap(shell, seen, sandbox.hidden(self.paths.data, seen), passwd))

    def processes(self) -> list[str]:
        """The processes that see its directory."""
        mark = str(Path(*self.paths.folder.parts[-3:]))
        return [path.parent.name for path in Path("/proc").glob("[0-9]*/mountinfo") if mark in text_of(path)]

    def run(self, script: str) -> str:
        """What a shell prints in the place of the agent."""
        done = subprocess.run(
            [*self.command(), "-c", script],
            env={"PATH": sandbox.PATH, "HOME": sandbox.HOME},
            cwd="/",
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.stdout + done.stderr


def text_of(path: Path) -> str:
    """The text of a file of a process that may end."""
    try:
        return path.read_text()
    except OSError:
        return ""


@pytest.fixture(params=[pytest.param("root", marks=needs_root), "ordinary"])
def group(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    """The group of a worker of root, and that of an ordinary user, who cannot enter the directories of pytest."""
    with tempfile.TemporaryDirectory() as data:
        paths = GroupPaths(Path(data), "ours")
        for folder in (paths.folder, paths.state, paths.input, paths.shared):
            folder.mkdir(parents=True)
        (paths.data / "passwd").write_text(sandbox.PASSWD)
        user = None
        if request.param == "ordinary" and os.geteuid() == 0:
            user = ORDINARY
            monkeypatch.setattr(os, "geteuid", lambda: user)
            monkeypatch.setattr(sys, "base_prefix", "/usr")  # that of the tests may be in root's home
            for path in (paths.data, *paths.data.rglob("*")):
                os.chown(path, user, user)
        # What the sandbox shows of this checkout must be where the user can go.
        server = paths.data / "mcp_server.py"
        shutil.copy(Path(sandbox.__file__).with_name("mcp_server.py"), server)
        monkeypatch.setattr(sandbox, "__file__", str(server))
        yield Group(paths, user)


def test_nothing_of_the_kernel_is_open_for_writing(group: Group) -> None:
    """Every file of /proc that is not of a process. Those of /proc/sys ask for the user id of root alone."""
    said = group.run(
        """
        find /proc -path '/proc/[0-9]*' -prune -o -path '/proc/*self' -prune -o -type f -print 2>/dev/null |
        while read -r file; do (exec 3>>"$file") 2>/dev/null && echo "OPEN $file"; done
        for file in /proc/kcore /proc/kmsg /proc/keys /proc/timer_list /proc/sysrq-trigger; do
            head -c 1 $file 2>/dev/null | grep -q . && echo "READ $file"
        done
        ls /sys 2>/dev/null; umount /proc/sys 2>/dev/null && echo UMOUNTED
        unshare -Urmpf --mount-proc sh -c 'exec 3>>/proc/sys/kernel/core_pattern' 2>/dev/null && echo AGAIN
        cat /proc/sys/kernel/ostype
        """
    )
    assert said == "Linux\n"


def test_only_its_own_directories_can_be_written(group: Group) -> None:
    """Not even those that a sandbox has in memory, beside its own for temporary files."""
    said = group.run(
        """
        for place in / /dev /etc /home /opt /opt/backstory /workspace /usr /workspace/global /workspace/ipc/input \
            /tmp /dev/shm /home/node /workspace/group /workspace/ipc /home/node/.claude; do
            (echo x > $place/written) 2>/dev/null && echo $place
        done; echo x > /dev/null
        """
    )
    assert said.split() == [
        *("/tmp", "/dev/shm", "/home/node", "/workspace/group", "/workspace/ipc", "/home/node/.claude")
    ]
    assert (group.paths.folder / "written").stat().st_uid == (group.user or os.getuid())


def test_processes_are_limited(group: Group) -> None:
    """A bomb of forks ends with its sandbox. Those outside do not count, and can still be started."""
    owners = [line.split()[:2] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    if group.user is None and os.geteuid() and [str(os.geteuid()), "0"] in owners:
        pytest.skip("Linux limits nobody whom root has given another number")
    said = group.run(
        """
        (n=0; while [ $n -lt 1500 ]; do sleep 60 & n=$((n+1)); done) 2> /tmp/said
        set -- /proc/[0-9]*; echo $#; cat /tmp/said
        """
    )
    number, why = said.split("\n", 1)
    assert 900 < int(number) <= limits.PROCESSES + 10  # bubblewrap's own are counted, too
    assert "fork" in why
    until(lambda: not group.processes(), "its processes to end")


def test_files_and_memory_are_limited(group: Group) -> None:
    said = group.run(
        """
        exec 2>/dev/null; ulimit -n; ulimit -d; ulimit -c; ulimit -n unlimited && echo RAISED
        for place in /workspace/group /tmp; do
            truncate -s 900G $place/sparse && echo "MADE $place"
        done
        truncate -s 15G /workspace/group/large; ls /workspace/group; cat /proc/self/oom_score_adj
        df -B1 --output=size /tmp /dev/shm /home/node | tail -3
        """
    )
    files, data, core, *names, adj, tmp, shm, home = said.split()
    assert (int(files), int(data), int(core)) == (limits.OPEN_FILES, limits.DATA_BYTES // 1024, 0)
    assert names == ["large", "sparse"]
    assert (group.paths.folder / "sparse").stat().st_size == 0
    assert adj == "1000"
    for size in (tmp, shm, home):
        assert int(size) == pytest.approx(limits.MEMORY_BYTES, abs=1 << 20)


def test_processes_are_counted_for_each_sandbox_only_by_newer_kernels() -> None:
    """By older ones, all processes of the user would count."""
    counted = {"6.1.0-13-amd64": True, "5.14.0-427.el9": True, "5.10.0": False, "4.18.0-513.el8": False, "?": False}
    assert {release: limits.counts_sandboxes(release) for release in counted} == counted


@needs_root
def test_the_agent_of_root_is_nobody_to_others(group: Group) -> None:
    """Services on abstract sockets ask for the user of their caller. What it writes is root's on the disk."""
    if group.user:
        pytest.skip("an ordinary user is nobody special")
    name = f"\\0backstory-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as service:
        service.bind("\0" + name[2:])
        service.listen()
        ask = f"import socket; socket.socket(socket.AF_UNIX).connect('{name}')"
        script = f'echo more >> /workspace/group/old; mkdir new; {sandbox.python()} -I -S -c "{ask}"; exit 0'
        (group.paths.folder / "old").write_text("old\n")
        (group.paths.folder / "old").chmod(0o600)
        assert group.run(script) == ""
        peer, _ = service.accept()
        with peer:
            credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        assert int.from_bytes(credentials[4:8], sys.byteorder) == drop_root.NOBODY
    assert (group.paths.folder / "old").read_text() == "old\nmore\n"
    assert {path.stat().st_uid for path in group.paths.folder.iterdir()} == {0}


@needs_root
def test_nothing_is_started_where_root_cannot_be_dropped(tmp_path: Path) -> None:
    """Some file systems cannot map owners, such as /proc."""
    drop = [sys.executable, "-I", "-S", drop_root.__file__]
    started = tmp_path / "started"
    done = subprocess.run([*drop, "--bind", "/proc", "--", "touch", str(started)], capture_output=True, text=True)
    assert done.returncode == 1
    assert re.fullmatch(
        r"The worker runs as root, and cannot run the agent as another user: .*\(/proc\)\.\n", done.stderr
    )
    assert not started.exists()
    with pytest.raises(BackstoryError, match="worker runs as root") as error:
        sandbox.check_program("bubblewrap", Path("/proc"))
    assert "as an ordinary user" in error.value.hint
    sandbox.check_program("bubblewrap", tmp_path)


@needs_root
def test_nothing_of_the_start_stays(group: Group) -> None:
    """No mount on the host, and no open file in the sandbox."""
    before = Path("/proc/self/mountinfo").read_text()
    assert group.run("ls /proc/self/fd | wc -l; ls /proc/$$/fd").split() == ["4", "0", "1", "2"]
    assert Path("/proc/self/mountinfo").read_text() == before
