"""Starts `claude` in a process group of its own, which ends when the worker lets go of its line: however it ends.

`python -I -S launch.py LINE PROGRAM …`: the line is a named pipe, and the worker holds its other end. The program takes
this process's place, so that whoever started it has its id; a small child stays and listens.
"""

import os
import select
import signal
import sys


def main(pipe: str, program: str, *args: str) -> None:
    os.setsid()
    line = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.read(line, 1)
        return  # nobody is at the other end: the worker went before we came
    except BlockingIOError:
        pass
    life, kept = os.pipe()
    if os.fork() == 0:
        os.close(kept)
        _listen(line, life)
    # Open for as long as the program lives: its end is heard as well, and nobody stays behind.
    os.set_inheritable(kept, True)
    os.execv(program, [program, *args])  # noqa: S606 - a shell would be one process more to end


def _listen(line: int, life: int) -> None:
    """Wait for the one end or the other, then end the group, and with it ourselves."""
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(life, select.POLLIN)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
