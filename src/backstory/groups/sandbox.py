"""Command lines of the sandbox in which the agent of a group runs: bubblewrap, Docker or Podman.

Every sandbox has the same directories inside. The agent sees its group, the memory that all groups share, its own state
and the files by which it talks to the host. It does not see the rest of the data directory.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backstory.errors import BackstoryError, BadSetting
from backstory.groups import drop_root, limits, names
from backstory.groups.names import GroupPaths
from backstory.text import one_line

#: Directories inside.
SHARED = "/workspace/global"
IPC = "/workspace/ipc"
PROJECT = "/workspace/project"
#: What the system tells of its processes. Their files can be reached from there.
PROCESSES = Path("/proc")
GROUPS = "/workspace/groups"
SESSIONS = "/workspace/sessions"
HOME = "/home/node"
STATE = f"{HOME}/.claude"
#: Programs inside.
CLAUDE = "/opt/backstory/claude"
SERVER = "/opt/backstory/mcp_server.py"
SHELL = "/opt/backstory/shell"
#: Where programs are looked for inside.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: User and group inside. Claude Code refuses to work unattended as root.
USER = "1000"
#: Files of /etc that programs need to find hosts, certificates, libraries, time zones and the default programs.
ETC = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("localtime", "mime.types", "nsswitch.conf", "pki", "resolv.conf", "ssl", "timezone"),
)
#: Parts of /proc that change the machine. Some of them ask only for the user id of root.
READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "pressure")
#: Parts of /proc that tell of the machine what no program needs, as container engines cover them.
MASKED = (
    *("acpi", "asound", "interrupts", "kcore", "keys", "kmsg", "latency_stats", "sched_debug", "scsi", "timer_list"),
    "timer_stats",
)
#: Directories with the programs of the system. Where they are links, they lead to /usr.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store")
#: The only users inside.
PASSWD = f"root:x:0:0:root:/root:/bin/sh\nnode:x:{USER}:{USER}::{HOME}:/bin/bash\n"
#: Seconds for a trial of the program.
TRIAL_S = 30.0
#: program -> its name, and how to get it
PROGRAMS = {
    "bwrap": (
        "bubblewrap",
        "Install it, for example with `apt install bubblewrap`, or choose another `group_sandbox`.",
    ),
    "docker": ("Docker", "Install it, or choose another `group_sandbox`."),
    "podman": ("Podman", "Install it, or choose another `group_sandbox`."),
}


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory that the agent sees."""

    outside: Path
    inside: str
    is_writable: bool = False


def mounts(paths: GroupPaths, project: Path | None = None) -> tuple[Mount, ...]:
    """Return what the agent of a group sees. The main group writes the directories of all groups, the memory that they
    share and a project, and reads their sessions."""
    found = [
        Mount(paths.folder, names.WORKSPACE, is_writable=True),
        Mount(paths.shared, SHARED, is_writable=names.is_main(paths.group)),
        Mount(paths.ipc, IPC, is_writable=True),
        Mount(paths.input, f"{IPC}/input"),  # an agent that could write there would speak for its user
        Mount(paths.state, STATE, is_writable=True),
        Mount(Path(__file__).with_name("mcp_server.py"), SERVER),
    ]
    if names.is_main(paths.group):
        # A link in the place of a group would lead its agent away. So it is each directory that can be written, and
        # not the one above them.
        found.append(Mount(paths.folder.parent, GROUPS))
        found += [Mount(each, f"{GROUPS}/{each.name}", is_writable=True) for each in _folders(paths.folder.parent)]
        found.append(Mount(paths.state.parent.parent, SESSIONS))
        if project:
            found.append(Mount(_project(paths.data, project), PROJECT, is_writable=True))
    return tuple(found)


def _folders(groups: Path) -> list[Path]:
    return sorted(each for each in groups.glob("*") if each.is_dir() and not each.is_symlink())


def _project(data: Path, project: Path) -> Path:
    """Return the directory of the project, resolved. It may contain the data directory, which is hidden then."""
    found = project.expanduser().resolve()
    if not found.is_dir():
        raise BadSetting(f"`main_project` is not a directory: {project}.")
    if found.is_relative_to(data.resolve()):
        raise BadSetting(
            "`main_project` is in the data directory, which no agent may see.", "Choose another directory."
        )
    if PROCESSES.is_relative_to(found) or found.is_relative_to(PROCESSES):
        raise BadSetting(
            f"`main_project` is {found}, with the processes of this machine in {PROCESSES}, which no agent may see.",
            "Choose the directory of a project.",
        )
    return found


def hidden(data: Path, seen: Iterable[Mount]) -> tuple[str, ...]:
    """Return where the data directory would be visible inside. It is covered there by an empty directory."""
    own = data.resolve()
    found = (mount for mount in seen if mount.inside == PROJECT and own.is_relative_to(mount.outside))
    return tuple(f"{mount.inside}/{own.relative_to(mount.outside)}" for mount in found)


def hidden_in_system(data: Path) -> tuple[str, ...]:
    """Return where bubblewrap would show the data directory among the programs of the system."""
    own = data.resolve()
    return (str(own),) if any(own.is_relative_to(folder) for folder in SYSTEM) else ()


def bubblewrap(program: Path, seen: Sequence[Mount], covered: Sequence[str], passwd: Path) -> tuple[str, ...]:
    """Return the command line of bubblewrap. It passes its environment on, and its arguments are visible to others."""
    command = ["bwrap", "--unshare-all", "--share-net", "--die-with-parent", "--new-session"]
    command += ["--uid", USER, "--gid", USER, "--cap-drop", "ALL", "--hostname", "backstory"]
    command += [*_processes(), "--dev", "/dev", *_in_memory("/dev/shm"), "--remount-ro", "/dev"]  # noqa: S108
    command += [*_in_memory("/tmp"), *_in_memory(HOME), *_system()]  # noqa: S108 - its own /tmp
    bound = [Mount(passwd, "/etc/passwd"), *(Mount(path, str(path)) for path in _python()), Mount(program, CLAUDE)]
    bound += seen
    as_nobody = _as_nobody(bound)
    for number, mount in enumerate(bound):
        outside = f"{drop_root.PLACE}/{number}" if as_nobody else str(mount.outside)
        command += [_bind(mount), outside, mount.inside]
    for place in covered:
        command += [*_in_memory(place), "--remount-ro", place]
    command += ["--remount-ro", "/", "--chdir", names.WORKSPACE]
    return (*as_nobody, *command, "--", "/bin/sh", "-c", limits.script(), "sh", CLAUDE)


def _bind(mount: Mount) -> str:
    return "--bind" if mount.is_writable else "--ro-bind"


def _as_nobody(bound: Iterable[Mount]) -> tuple[str, ...]:
    """Return the command that drops the privileges of root before bubblewrap is started; empty if there are none."""
    if not is_root():
        return ()
    sources = (word for mount in bound for word in (_bind(mount), str(mount.outside)))
    return (sys.executable, "-I", "-S", str(Path(drop_root.__file__)), *sources, "--")


def is_root() -> bool:
    """Whether this process is root on the machine, and not only in a container of an ordinary user."""
    if os.geteuid():
        return False
    try:
        owners = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    except OSError:
        return True
    return (0, 0) in [owner[:2] for owner in owners]


def _processes() -> list[str]:
    """Show the processes of the sandbox. What else is in /proc is covered as in containers, or read-only."""
    command = ["--proc", str(PROCESSES)]
    for name in READ_ONLY:
        command += ["--ro-bind-try", f"{PROCESSES}/{name}", f"{PROCESSES}/{name}"]
    for path in (PROCESSES / name for name in MASKED):
        if path.is_dir():
            command += ["--tmpfs", str(path), "--remount-ro", str(path)]
        elif path.exists():
            command += ["--ro-bind", os.devnull, str(path)]
    return command


def _in_memory(place: str) -> list[str]:
    """Put an empty directory there that is kept in memory, and cannot take all of it."""
    return [*(["--size", str(limits.MEMORY_BYTES)] if _knows_size() else []), "--tmpfs", place]


@functools.cache
def _knows_size() -> bool:
    """Whether bubblewrap limits what is kept in memory. It does since 0.7."""
    try:
        return "--size" in subprocess.run(["bwrap", "--help"], capture_output=True, text=True, timeout=TRIAL_S).stdout
    except (OSError, subprocess.SubprocessError):
        return False


def _system() -> list[str]:
    """Bind the programs of the system. Most systems have links to /usr in the root directory."""
    command = ["--ro-bind", "/usr", "/usr"]
    for path in map(Path, SYSTEM[1:-1]):
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            command += ["--ro-bind", str(path), str(path)]
    for name in ETC:
        command += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return [*command, "--ro-bind-try", SYSTEM[-1], SYSTEM[-1]]


def _python() -> list[Path]:
    """Return the files of the Python that runs the server inside, unless they are in /usr. They are not all of its
    prefix: that may be a home directory."""
    program, library = Path(python()), Path(os.__file__).resolve().parent
    if program.is_relative_to("/usr"):
        return []
    return [program, library, *sorted(program.parent.parent.glob("lib/libpython*.so*"))]


def python() -> str:
    """Return the Python that runs the server inside. It is that of the system, without the virtual environment."""
    base, version = Path(sys.base_prefix).resolve(), f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(base / "bin" / version)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of Docker or Podman."""

    engine: str
    image: str
    name: str

    def command(
        self, program: Path, seen: Sequence[Mount], covered: Sequence[str], env: Mapping[str, str], told: Iterable[str]
    ) -> tuple[str, ...]:
        """Return its command line, with the variables `env`. Those of `told` are taken from the environment, by name:
        others can read a command line."""
        command = [self.engine, "run", "--rm", "--interactive", "--init", "--name", self.name, "--network", "host"]
        command += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"]
        command += ["--tmpfs", f"/tmp:exec,size={limits.MEMORY_BYTES}"]  # noqa: S108
        command += ["--tmpfs", f"{HOME}:mode=1777,size={limits.MEMORY_BYTES}"]
        command += limits.of_container()
        command += ["--userns", "keep-id"] if self.engine == "podman" else []
        command += ["--user", f"{os.getuid()}:{os.getgid()}", "--workdir", names.WORKSPACE]
        for mount in (*seen, Mount(program, CLAUDE)):
            parts = ["type=bind", f"source={mount.outside}", f"destination={mount.inside}"]
            command += ["--mount", ",".join(map(_quoted, [*parts, *([] if mount.is_writable else ["readonly"])]))]
        for place in covered:
            command += ["--mount", ",".join(map(_quoted, ["type=tmpfs", f"destination={place}"]))]
        for variable in (*(f"{name}={value}" for name, value in env.items()), *sorted(told)):
            command += ["--env", variable]
        return (*command, self.image, CLAUDE)

    @property
    def removal(self) -> tuple[str, ...]:
        """The command line that removes a container of this name, which a killed worker may have left."""
        return (self.engine, "rm", "--force", self.name)


def with_path(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command line with the path of its program. Raise an error if the program is not installed."""
    at = next(number for number, word in enumerate(command) if word in PROGRAMS)
    if found := shutil.which(command[at]):
        return (*command[:at], found, *command[at + 1 :])
    name, hint = PROGRAMS[command[at]]
    raise BackstoryError(f"{name} is not installed, so the agent of a group cannot be started.", hint)


def check_program(engine: str, data: Path) -> None:
    """Raise an error if no agent could be started in this sandbox."""
    program = with_path(["bwrap" if engine == "bubblewrap" else engine])
    if engine == "bubblewrap":
        trial = [*_as_nobody([Mount(data, "", is_writable=True)]), *program, "--unshare-all", "--ro-bind", "/", "/"]
        try:
            tried = subprocess.run([*trial, "true"], check=False, capture_output=True, text=True, timeout=TRIAL_S)
        except subprocess.TimeoutExpired:
            return  # the machine is busy
        if tried.returncode:
            message = f"bubblewrap cannot start a program: {one_line(tried.stderr)}"
            way = "Run the worker as an ordinary user" if is_root() else "Allow user namespaces on this machine"
            raise BackstoryError(message, f"{way}, or choose another `group_sandbox`.")


def _quoted(field: str) -> str:
    """Quote a field of `--mount`, which is a line of CSV."""
    return '"' + field.replace('"', '""') + '"' if "," in field or '"' in field else field
