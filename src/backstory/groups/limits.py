"""What the agent of a group may use of the machine: processes, files and memory."""

from __future__ import annotations

import os
import re

#: Processes and threads of a sandbox.
PROCESSES = 1024
#: Open files of a process.
OPEN_FILES = 8192
#: Bytes of a file. A sparse one counts as if it were full.
FILE_BYTES = 16 << 30
#: Bytes of memory of the machine.
_MACHINE_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
#: Bytes that a process may have for its data. Claude Code reserves 6 GB at its start, and uses 200 MB of them.
DATA_BYTES = max(16 << 30, _MACHINE_BYTES // 2)
#: Bytes of each directory that is kept in memory.
MEMORY_BYTES = _MACHINE_BYTES // 8
#: The first Linux that counts the processes of a sandbox by themselves, and not with all of their user.
_COUNTS_SANDBOXES = (5, 14)


def script() -> str:
    """Return a shell script that sets the limits and runs its arguments. What a system does not know is left out."""
    wanted = ["-c 0", f"-n {OPEN_FILES}", f"-f {FILE_BYTES // 512}", f"-d {DATA_BYTES // 1024}"]
    lines = [f"ulimit {each}" for each in wanted]
    if counts_sandboxes(os.uname().release):
        lines.append(f"ulimit -u {PROCESSES} || ulimit -p {PROCESSES}")  # as bash and dash call it
    lines.append("echo 1000 > /proc/self/oom_score_adj")  # when memory runs out, these end first
    return "{ " + "; ".join(lines) + '; } 2>/dev/null; exec "$@"'


def counts_sandboxes(release: str) -> bool:
    """Whether a Linux of this release counts the processes of each sandbox by themselves."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    return numbers is not None and tuple(map(int, numbers.groups())) >= _COUNTS_SANDBOXES


def of_container() -> list[str]:
    """Return the limits as options of Docker and Podman."""
    limits = [f"nofile={OPEN_FILES}:{OPEN_FILES}", f"fsize={FILE_BYTES}:{FILE_BYTES}", "core=0:0"]
    return ["--pids-limit", str(PROCESSES), *(word for each in limits for word in ("--ulimit", each))]
