"""`backstory mcp`: forwards an agent's MCP messages from standard input to the worker, and prints the responses.

Every session of every agent starts one, so it imports C modules only and does not parse messages; the worker implements
the protocol. The launch script runs `python -I -S -c 'import mcp_bridge' DATA_DIR`. It prints nothing but responses.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import _thread
import posix
import sys
import time

START_S = 10.0  # seconds to wait for a worker to start
GRACE_S = 3.0  # seconds to wait for another worker after ours has exited: it exits at once if one is running
ANSWER_S = 900.0  # seconds to wait for a response: `forget` rewrites the whole database
LEAVE_S = 60.0  # seconds to wait for pending responses after standard input has ended
LARGEST = 16 << 20  # bytes of a message that the worker accepts
READ = 1 << 16  # bytes per read call
SOMEBODY = -1  # instead of a process id: the worker was not started by us

_printing = _thread.allocate_lock()
_starting = _thread.allocate_lock()
_pending: list[bytes] = []  # messages that have no response yet


def main(argv: list[str]) -> None:
    """Forward messages until standard input ends."""
    try:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # a worker that we start needs no wait()
        _read_messages(_enter(argv[0]))
        deadline = time.monotonic() + LEAVE_S
        while _pending and time.monotonic() < deadline and _is_heard():
            time.sleep(0.002)
    except BaseException:  # noqa: S110 - nothing but responses may be printed
        pass
    # Skip the interpreter's shutdown, which would wait for threads that wait for the worker.
    posix._exit(0)


def _is_heard() -> bool:
    """Whether standard output is still open at the other end."""
    import select

    output = select.poll()
    output.register(1, 0)  # no events: errors are always reported
    return not output.poll(0)


def _enter(data_dir: str) -> bytes:
    """Change to the data directory, where the socket is. Returns the head of every request."""
    try:
        cwd = posix.getcwdb()
    except OSError:
        cwd = b""
    try:
        posix.chdir(data_dir)
    except FileNotFoundError:
        posix.mkdir(data_dir, 0o700)
        posix.chdir(data_dir)
    cwd_header = b"" if b"\n" in cwd or b"\r" in cwd else b"X-Backstory-Cwd: " + cwd + b"\r\n"
    return (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"Accept: application/json, text/event-stream\r\n" + cwd_header + b"Content-Length: "
    )


def _read_messages(head: bytes) -> None:
    """Read messages from standard input, one per line, and forward each in a thread of its own."""
    rest = bytearray()
    while chunk := posix.read(0, READ):
        *lines, end = chunk.split(b"\n")
        for line in lines:
            _start_forwarding(head, bytes(rest + line))
            rest.clear()
        rest += end
    _start_forwarding(head, bytes(rest))


def _start_forwarding(head: bytes, line: bytes) -> None:
    if line.strip():
        _pending.append(line)
        _thread.start_new_thread(_forward, (head, line))


def _forward(head: bytes, line: bytes) -> None:
    """Send one message to the worker and print the response, if there is one."""
    try:
        status, body = (413, b"") if len(line) > LARGEST else _ask(b"%s%d\r\n\r\n%s" % (head, len(line), line))
        if not (200 <= status < 300 or body.startswith(b'{"jsonrpc"')):
            body = _failure(line, status, body)
        if body:
            _print(body.rstrip(b"\n") + b"\n")
    except BrokenPipeError:
        posix._exit(0)
    except BaseException:  # noqa: S110 - a failed message must not affect the others
        pass
    finally:
        _pending.remove(line)


def _ask(request: bytes) -> tuple[int, bytes]:
    """Return status and body of the worker's response. The status is 0 without one, and -1 if it is incomplete. Starts
    the worker if it is not running."""
    deadline, started = time.monotonic() + START_S, 0
    while True:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.settimeout(ANSWER_S)
            connection.connect("worker.sock")
            return _exchange(connection, request)
        except OSError:
            if not started:
                with _starting:
                    started = SOMEBODY if _is_running() else _start_worker()
            if started > 0 and _is_gone(started):
                deadline, started = min(deadline, time.monotonic() + GRACE_S), SOMEBODY
            if time.monotonic() > deadline or not started:
                return 0, b""
            time.sleep(0.02)
        finally:
            connection.close()


def _exchange(connection: _socket.socket, request: bytes) -> tuple[int, bytes]:
    """Send a request and read the response. A request is never repeated: the worker may have executed it already."""
    try:
        connection.sendall(request)
    except ConnectionError:
        pass  # a worker that rejects a body early has sent a response nevertheless
    except OSError:
        return -1, b""
    response = bytearray()
    try:
        while chunk := connection.recv(1 << 16):
            response += chunk
        head, _, body = bytes(response).partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        return int(head[9:12]) if len(body) == int(length or 0) else -1, body
    except (OSError, ValueError):
        return -1, b""


def _is_running() -> bool:
    """Whether a worker accepts connections. Another thread may have started it in the meantime."""
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
    """Start the worker as a detached process and return its process id, or 0. It exits if another one is running."""
    to_dev_null = [(posix.POSIX_SPAWN_OPEN, fd, "/dev/null", posix.O_RDWR, 0) for fd in (0, 1, 2)]
    environment = {k: v for k, v in posix.environ.items() if not k.startswith(b"CLAUDE")}
    for command in (["bin/backstory-worker"], [sys.executable, "-P", "-m", "backstory", "worker"]):
        try:
            return posix.posix_spawn(
                command[0], command, environment, file_actions=to_dev_null, setsid=True, setsigdef=[_signal.SIGCHLD]
            )
        except OSError:
            continue
    return 0


def _failure(line: bytes, status: int, body: bytes) -> bytes:
    """Return a JSON-RPC error for a request; nothing for a notification. Only this parses the message."""
    import json

    message = {
        0: "The worker of backstory does not answer. Run `backstory doctor` to find out why.",
        -1: "The worker of backstory exited before it answered; ask again.",
        413: "The message is larger than 16 MiB.",
    }.get(status, f"The worker of backstory answered {status}.")
    try:
        request_id = json.loads(line)["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return b""
    if body.startswith(b'{"error"'):
        message = json.loads(body)["error"]
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": {"code": -32000, "message": message}}).encode()


def _print(response: bytes) -> None:
    with _printing:
        while response:
            response = response[posix.write(1, response) :]


if __name__ in ("__main__", "mcp_bridge"):
    main(sys.argv[1:])
