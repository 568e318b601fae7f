"""Starts `claude` in its own process group, and kills the group when the worker ends or closes its end of a pipe.

`python -I -S launch.py PIPE PROGRAM …`: PIPE is a named pipe that the worker holds open. The program replaces this
process, so that the worker knows its process id. A small child process watches the pipe.
"""

import os
import select
import signal
import sys


def main(pipe: str, program: str, *args: str) -> None:
    os.setsid()
    worker_pipe = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.read(worker_pipe, 1)
        return  # end of file: the worker is gone already
    except BlockingIOError:
        pass
    program_pipe, write_end = os.pipe()
    if os.fork() == 0:
        os.close(write_end)
        _watch(worker_pipe, program_pipe)
    # The program holds this end until it exits, which ends the watching child, too.
    os.set_inheritable(write_end, True)
    os.execv(program, [program, *args])  # noqa: S606 - a shell would be one more process to kill


def _watch(worker_pipe: int, program_pipe: int) -> None:
    """Wait until the worker or the program has closed its pipe, then kill the process group, this process included."""
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    devnull = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(devnull, standard)
    poll = select.poll()
    poll.register(worker_pipe, select.POLLIN)
    poll.register(program_pipe, select.POLLIN)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
