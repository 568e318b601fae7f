"""The hook: sends an agent's payload to the worker, or leaves it in the spool. It always exits with 0.

It runs with every tool use, and starting the interpreter takes most of its time. So it imports C modules only and
parses nothing. The launch script runs `python -I -S -c 'import hook' DATA_DIR AGENT EVENT`.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import sys
import time

NETWORK_S = 0.4  # seconds for the response of a running worker
START_S = 1.2  # seconds for that at the start of a session: the worker may finish the last session's memory first
TOTAL_S = 1.8  # seconds for everything; agents wait longer
SESSION_END_S = 0.9  # seconds at the end of a session: agents kill this hook earlier, Claude Code after 1.5 s
RESERVE_S = 0.5  # seconds of these for an event that could not be stripped in time
MAX_BYTES = 16 << 20  # bytes of a payload that the worker accepts
LARGE = 128 << 10  # bytes; in a larger payload the search for secrets is slow, so the worker or the spooling does it
SPOOL_LIMIT = 1 << 30  # bytes of the spool


class _TimeUp(Exception):
    """The time is up."""


def _raise_time_up(*_):  # type: ignore[no-untyped-def]
    raise _TimeUp


def _set_alarm(limit: float) -> None:
    _signal.setitimer(_signal.ITIMER_REAL, max(0.01, limit - time.monotonic()))


def main(argv: list[str]) -> None:
    """Handle one event. Nothing that goes wrong here reaches the agent."""
    try:
        if argv[1:] == ["--version"]:
            return _print(_version())
        data, agent, event = argv[:3]
        # An agent that cancels its hooks ends them by SIGTERM: the event is still spooled.
        for ending in (_signal.SIGALRM, _signal.SIGTERM, _signal.SIGINT):
            _signal.signal(ending, _raise_time_up)
        deadline = time.monotonic() + (SESSION_END_S if event.lower() == "sessionend" else TOTAL_S)
        _set_alarm(deadline)
        # The observer's own sessions are not recorded.
        if not posix.environ.get(b"BACKSTORY_OBSERVER") and (agent + event).replace("-", "").isalnum():
            _deliver(data, agent, event, deadline)
    except BaseException:  # noqa: S110 - no error may reach the agent
        pass


def _deliver(data: str, agent: str, event: str, deadline: float) -> None:
    body = _read(deadline)
    _enter(data)
    event_id = f"{time.time_ns() // 1_000_000:013x}-{posix.urandom(8).hex()}"
    name = f"{event_id}.{agent}.{event}.json"
    if body is None:
        _answer(agent, event)
        _spool("spool/rejected", name, b'{"error":"The payload was larger than 16 MiB."}')
        return
    if not body or body.isspace():
        _answer(agent, event)
        return
    request = (
        f"POST /hooks/{agent}/{event} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"X-Backstory-Event: {event_id}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    status, reply = _send(request, time.monotonic() + (START_S if event.lower() == "sessionstart" else NETWORK_S))
    if status == 0 and (fallback := _fallback(agent)) and event in fallback.STARTS_WORKER:
        worker = _start_worker(fallback)
        # Wait if the response is the context of the session.
        limit = deadline - 0.2
        while status == 0 and worker and event in fallback.WAITS and time.monotonic() < limit:
            time.sleep(0.02)
            if _has_failed(worker):
                _print(fallback.NO_WORKER)
                break
            status, reply = _send(request, limit)
    if 200 <= status < 300:
        _print(reply)
        return
    _answer(agent, event)
    # Without a response, after an error or with a wrong token it is sent again later. A rejected event is set aside.
    is_sent_again = status in (-1, 0, 401, 408, 429) or status >= 500
    if not is_known(agent) or not (is_sent_again or _is_object(body)):
        return  # no worker would ever take it
    if len(body) > LARGE:
        body = _strip_in_time(body, deadline, cut=True)
    _spool("spool" if is_sent_again else "spool/rejected", name, body)


def _answer(agent: str, event: str) -> None:
    """Print the reply that the agent expects if the worker has not answered."""
    if fallback := _fallback(agent):
        _print(fallback.REPLIES.get(event, b""))


def _fallback(agent: str):  # type: ignore[no-untyped-def]
    """The module `hook_fallback` of an agent, or None. It is imported only if the worker has not answered."""
    sys.path.append(__file__.rpartition("/")[0] + "/agents/" + agent.replace("-", "_"))
    try:
        import hook_fallback  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    return hook_fallback


def is_known(agent: str) -> bool:
    """Whether this package has the agent. A worker of an earlier version may not."""
    try:
        posix.stat(__file__.rpartition("/")[0] + "/agents/" + agent.replace("-", "_") + "/__init__.py")
    except OSError:
        return False
    return True


def _is_object(body: bytes) -> bool:
    """Whether a payload that the worker rejected is a JSON object, as agents send it."""
    import json

    try:
        return isinstance(json.loads(body, parse_int=str), dict)
    except RecursionError:
        return True
    except ValueError:
        return False


def _version() -> bytes:
    """The version of this package. The plugin and `doctor` compare it with theirs."""
    source = posix.open(__file__.rpartition("/")[0] + "/__init__.py", posix.O_RDONLY)
    return posix.read(source, 4096).partition(b'__version__ = "')[2].partition(b'"')[0] + b"\n"


def _read(deadline: float) -> bytes | None:
    """Read and strip the payload. None if it is too large. All of it is read, so that the agent gets no broken pipe."""
    chunks, size = [], 0
    while chunk := posix.read(0, 1 << 20):
        size += len(chunk)
        if size <= MAX_BYTES:
            chunks.append(chunk)
    if size > MAX_BYTES:
        return None
    body = b"".join(chunks)
    here = __file__.rpartition("/")[0]
    if here not in sys.path:
        sys.path.append(here)
    return _strip_in_time(body, deadline, secrets=len(body) <= LARGE)


def _strip_in_time(body: bytes, deadline: float, secrets: bool = True, cut: bool = False) -> bytes:
    """Strip private text. If the time is up, only the identifying fields are kept. The worker reads the rest from the
    transcript."""
    _set_alarm(deadline - RESERVE_S)
    try:
        stripped = _strip(body, secrets, cut)
        _set_alarm(deadline)
    except _TimeUp:
        _set_alarm(deadline)
        from privacy import names_only  # type: ignore[import-not-found,unused-ignore]

        stripped = names_only(body)
    return stripped


def _strip(body: bytes, secrets: bool, cut: bool) -> bytes:
    """Strip private text if the fast check finds signs of it. With `cut`, truncate the payload to what the worker would
    store and skip the check, which takes too long for 16 MiB."""
    import prefilter  # type: ignore[import-not-found,unused-ignore]

    if not cut:
        is_found = prefilter.suspicious if secrets else prefilter.tagged
        if not is_found(body):
            return body
        import plain_tags  # type: ignore[import-not-found,unused-ignore]

        shown: bytes | None = plain_tags.remove(body)
        if shown is not None and not is_found(shown):
            return shown
    import privacy  # type: ignore[import-not-found,unused-ignore]

    strip = privacy.cut_bytes if cut else privacy.strip_bytes if secrets else privacy.untag_bytes
    stripped: bytes = strip(body)
    return stripped


def _enter(data: str) -> None:
    """Change to the data directory. The path of a socket has a length limit, so a relative one is used."""
    try:
        posix.chdir(data)
    except FileNotFoundError:
        posix.mkdir(data, 0o700)
        posix.chdir(data)


def _send(request: bytes, limit: float) -> tuple[int, bytes]:
    """Send a request; return status and body. The status is 0 without a worker, -1 if it does not answer in time."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    status = 0
    try:
        connection.settimeout(max(0.01, limit - time.monotonic()))
        connection.connect("worker.sock")
        status = -1
        try:
            connection.sendall(request)
        except ConnectionError:
            pass  # a worker that rejects a body early has sent a response nevertheless
        answer = b""
        while True:
            connection.settimeout(max(0.01, limit - time.monotonic()))
            chunk = connection.recv(1 << 16)
            answer += chunk
            head, _, body = answer.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            if length and len(body) >= int(length):
                return int(head[9:12]), body
            if not chunk:
                return int(head[9:12]), b""  # the worker was killed; ignore half a response
    except (OSError, ValueError, _TimeUp):
        return status, b""
    finally:
        connection.close()


def _start_worker(fallback) -> int:  # type: ignore[no-untyped-def]
    """Start the worker as a detached process. Returns its process id, or 0."""
    to_dev_null = [(posix.POSIX_SPAWN_OPEN, fd, "/dev/null", posix.O_RDWR, 0) for fd in (0, 1, 2)]
    environment = {
        k: v for k, v in posix.environ.items() if not k.startswith(fallback.VARIABLES) or k in fallback.LOGIN
    }
    try:
        return posix.posix_spawn(
            "bin/backstory-worker", ["bin/backstory-worker"], environment, file_actions=to_dev_null, setsid=True
        )
    except OSError:
        return 0


def _has_failed(worker: int) -> bool:
    """Whether the worker that we started has exited with an error. It exits without one if another is running."""
    try:
        status = posix.waitpid(worker, posix.WNOHANG)[1]
    except OSError:
        return False
    return posix.WIFEXITED(status) and posix.WEXITSTATUS(status) != 0


def _spool(folder: str, name: str, body: bytes) -> None:
    """Write the event to the spool, readable by its owner only. The file appears whole or not at all."""
    for path in ("spool", folder):
        try:
            posix.mkdir(path, 0o700)
        except FileExistsError:
            continue
    # This file has one byte for each KiB spooled, so its size is that of the spool in KiB. The worker resets it.
    gauge = posix.open("spool/.size", posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT, 0o600)
    kib = len(body) // 1024 + 1
    if (posix.fstat(gauge).st_size + kib) * 1024 > SPOOL_LIMIT:
        return
    posix.write(gauge, bytes(kib))
    temporary = f"spool/.{name}"
    out = posix.open(temporary, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, 0o600)
    try:
        view = memoryview(body)
        while view:
            view = view[posix.write(out, view) :]
        posix.rename(temporary, f"{folder}/{name}")
    except BaseException:
        posix.unlink(temporary)
        raise


def _print(reply: bytes) -> None:
    while reply:
        reply = reply[posix.write(1, reply) :]


if __name__ in ("__main__", "hook"):
    main(sys.argv[1:])
    # Skip the interpreter's shutdown: it takes a millisecond and could still print.
    posix._exit(0)
