"""Starts a program in its own process group, and kills the group when its owner ends or closes its end of a pipe.

`python -I -S launch.py PIPE PROGRAM …`: PIPE is the named pipe of a `KillSwitch`, which the owner holds open. The
program replaces this process, so that the owner knows its process id. A small child process watches the pipe. If
BACKSTORY_VARIABLES is set, the program gets only the variables that it names, separated by commas.
"""

import contextlib
import os
import select
import signal
import sys

#: Milliseconds that a program has to exit after it has closed its pipe.
EXIT_MS = 2000
#: Milliseconds between two looks whether it has.
LOOK_MS = 5


def main(pipe: str, program: str, *args: str) -> None:
    os.setsid()
    owner_pipe = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.read(owner_pipe, 1)
        return  # end of file: the owner is gone already
    except BlockingIOError:
        pass
    program_pipe, write_end = os.pipe()
    own_id = os.getpid()
    if os.fork() == 0:
        os.close(write_end)
        _watch(pipe, owner_pipe, program_pipe, own_id)
    # The program holds this end until it exits, which ends the watching child, too.
    os.set_inheritable(write_end, True)
    os.execve(program, [program, *args], _environment())  # noqa: S606 - a shell would be one more process to kill


def _environment() -> dict[str, str]:
    names = os.environ.get("BACKSTORY_VARIABLES")
    if names is None:
        return dict(os.environ)
    return {name: os.environ[name] for name in names.split(",") if name in os.environ}


def _watch(pipe: str, owner_pipe: int, program_pipe: int, program_id: int) -> None:
    """Wait until the owner or the program has closed its pipe, then kill the process group, this process included."""
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    devnull = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(devnull, standard)
    poll = select.poll()
    poll.register(owner_pipe, select.POLLIN)
    poll.register(program_pipe, select.POLLIN)
    poll.poll()
    poll.unregister(program_pipe)
    # A sandbox hands the pipe on to the program inside, and lives a little longer, to tell how that ended.
    for _ in range(EXIT_MS // LOOK_MS):
        if os.getppid() != program_id or poll.poll(LOOK_MS):
            break
    with contextlib.suppress(OSError):
        os.unlink(pipe)  # noqa: PTH108 - its owner may have been killed, and pathlib is slow to import
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
