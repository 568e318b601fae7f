"""`backstory mcp`, near side: an agent's MCP messages from standard input to the worker, its answers back. No more.

Every session of every agent starts one, so it imports C modules only and passes bytes on: the protocol is spoken by the
worker. `python -I -S -c 'import mcp_bridge' DATA_DIR` is how the shim calls it. Nothing but answers is ever printed.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import _thread
import posix
import sys
import time

START_S = 10.0  # for a worker that has to be started
GRACE_S = 3.0  # for another, if the one that we started has gone: it was there already, or none can start
ANSWER_S = 900.0  # for an answer: to forget something, a large database is rewritten
LEAVE_S = 60.0  # for answers under way when nobody asks any more, as long as somebody listens
LARGEST = 16 << 20  # what the worker takes
READ = 1 << 16
SOMEBODY = -1  # a worker that somebody else has started

_printing = _thread.allocate_lock()
_starting = _thread.allocate_lock()
_under_way: list[bytes] = []


def main(argv: list[str]) -> None:
    """Until standard input ends."""
    try:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # nobody waits for a worker that was started here
        _read(_go(argv[0]))
        until = time.monotonic() + LEAVE_S
        while _under_way and time.monotonic() < until and _is_heard():
            time.sleep(0.002)
    except BaseException:  # noqa: S110 - told to go; there is nobody to tell
        pass
    # No interpreter shutdown: threads that still wait for a worker are not waited for.
    posix._exit(0)


def _is_heard() -> bool:
    """Whether somebody still reads what is printed."""
    import select

    output = select.poll()
    output.register(1, 0)  # errors are always told
    return not output.poll(0)


def _go(data: str) -> bytes:
    """Into the data directory, where the socket is; what every request begins with."""
    try:
        where = posix.getcwdb()
    except OSError:
        where = b""
    try:
        posix.chdir(data)
    except FileNotFoundError:
        posix.mkdir(data, 0o700)
        posix.chdir(data)
    told = b"" if b"\n" in where or b"\r" in where else b"X-Backstory-Cwd: " + where + b"\r\n"
    return (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"Accept: application/json, text/event-stream\r\n" + told + b"Content-Length: "
    )


def _read(head: bytes) -> None:
    """Pass on what comes on standard input, one message a line, each in its own time, until it ends."""
    rest = bytearray()
    while chunk := posix.read(0, READ):
        *lines, end = chunk.split(b"\n")
        for line in lines:
            _begin(head, bytes(rest + line))
            rest.clear()
        rest += end
    _begin(head, bytes(rest))


def _begin(head: bytes, line: bytes) -> None:
    if line.strip():
        _under_way.append(line)
        _thread.start_new_thread(_pass, (head, line))


def _pass(head: bytes, line: bytes) -> None:
    """One message there, and its answer back, if it has one."""
    try:
        status, body = (413, b"") if len(line) > LARGEST else _ask(b"%s%d\r\n\r\n%s" % (head, len(line), line))
        if not (200 <= status < 300 or body.startswith(b'{"jsonrpc"')):
            body = _failure(line, status, body)
        if body:
            _print(body.rstrip(b"\n") + b"\n")
    except BrokenPipeError:
        posix._exit(0)
    except BaseException:  # noqa: S110 - one message must not end the others, nor print anything
        pass
    finally:
        _under_way.remove(line)


def _ask(request: bytes) -> tuple[int, bytes]:
    """The worker's answer; it is started if it is away. The status is 0 if none came, -1 if one broke off."""
    until, started = time.monotonic() + START_S, 0
    while True:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.settimeout(ANSWER_S)
            connection.connect("worker.sock")
            return _talk(connection, request)
        except OSError:
            if not started:
                with _starting:
                    started = SOMEBODY if _there() else _start_worker()
            if started > 0 and _is_gone(started):
                until, started = min(until, time.monotonic() + GRACE_S), SOMEBODY
            if time.monotonic() > until or not started:
                return 0, b""
            time.sleep(0.02)
        finally:
            connection.close()


def _talk(connection: _socket.socket, request: bytes) -> tuple[int, bytes]:
    """Never sent a second time: it may have been done, though the worker ended before it could say so."""
    try:
        connection.sendall(request)
    except ConnectionError:
        pass  # a worker that refuses a body before its end has answered all the same
    except OSError:
        return -1, b""
    answer = bytearray()
    try:
        while chunk := connection.recv(1 << 16):
            answer += chunk
        head, _, body = bytes(answer).partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        return int(head[9:12]) if len(body) == int(length or 0) else -1, body
    except (OSError, ValueError):
        return -1, b""


def _there() -> bool:
    """Whether a worker has come meanwhile: another message may have started it."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect("worker.sock")
    except OSError:
        return False
    finally:
        connection.close()
    return True


def _is_gone(pid: int) -> bool:
    try:
        posix.kill(pid, 0)
    except OSError:
        return True
    return False


def _start_worker() -> int:
    """Start the worker on its own, with nothing of ours attached; its process id, or 0. One that runs is left alone."""
    quiet = [(posix.POSIX_SPAWN_OPEN, fd, "/dev/null", posix.O_RDWR, 0) for fd in (0, 1, 2)]
    environment = {k: v for k, v in posix.environ.items() if not k.startswith(b"CLAUDE")}
    for command in (["bin/backstory-worker"], [sys.executable, "-P", "-m", "backstory", "worker"]):
        try:
            return posix.posix_spawn(
                command[0],
                command,
                environment,
                file_actions=quiet,
                setsid=True,
                setsigdef=[_signal.SIGCHLD],
            )
        except OSError:
            continue
    return 0


def _failure(line: bytes, status: int, body: bytes) -> bytes:
    """What went wrong, as an answer to a request; nothing for a notification. Only here is anything parsed."""
    import json

    says = {
        0: "The worker of backstory does not answer; `backstory doctor` says why.",
        -1: "The worker of backstory ended before it had answered; ask again.",
        413: "The message is larger than 16 MiB.",
    }.get(status, f"The worker of backstory answered {status}.")
    try:
        number = json.loads(line)["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return b""
    if body.startswith(b'{"error"'):
        says = json.loads(body)["error"]
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": says}}).encode()


def _print(answer: bytes) -> None:
    with _printing:
        while answer:
            answer = answer[posix.write(1, answer) :]


if __name__ in ("__main__", "mcp_bridge"):
    main(sys.argv[1:])
