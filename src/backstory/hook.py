"""One hook event, near side: hands an agent's payload to the worker, else leaves it in the spool. Always exits 0.

Every tool use of every agent pays for this file: interpreter start is the whole cost, so it imports C modules only,
passes bytes on and parses nothing. `python -I -S -c 'import hook' DATA_DIR AGENT EVENT` is how the shim calls it.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import sys
import time

NETWORK_S = 0.4  # for a worker that is there
WHOLE_S = 1.8  # for everything; the agent's own patience is longer
END_S = 0.9  # for the end of a session: agents kill this hook earlier than others, Claude Code after 1.5 s
SPARE_S = 0.5  # of that, for keeping an event whose contents could not be stripped in time
LARGEST = 16 << 20  # what the worker takes
LARGE = 128 << 10  # from here on the look for secrets is felt: it is left to the worker, or to the moment of spooling
SPOOL_LIMIT = 1 << 30


class _Late(Exception):
    """The time is up."""


def _ring(*_):  # type: ignore[no-untyped-def]
    raise _Late


def _ring_at(limit: float) -> None:
    _signal.setitimer(_signal.ITIMER_REAL, max(0.01, limit - time.monotonic()))


def main(argv: list[str]) -> None:
    """Do it all, and never fail the agent."""
    try:
        if argv[1:] == ["--version"]:
            return _print(_version())
        data, agent, event = argv[:3]
        _signal.signal(_signal.SIGALRM, _ring)
        deadline = time.monotonic() + (END_S if event.lower() == "sessionend" else WHOLE_S)
        _ring_at(deadline)
        # The observer's own sessions are never observed.
        if not posix.environ.get(b"BACKSTORY_OBSERVER") and (agent + event).replace("-", "").isalnum():
            _deliver(data, agent, event, deadline)
    except BaseException:  # noqa: S110 - whatever it is, the agent must not hear of it
        pass


def _deliver(data: str, agent: str, event: str, deadline: float) -> None:
    body = _read(deadline)
    _go(data)
    event_id = f"{time.time_ns() // 1_000_000:013x}-{posix.urandom(8).hex()}"
    name = f"{event_id}.{agent}.{event}.json"
    if body is None:
        _answer(agent, event)
        _spool("spool/rejected", name, b'{"error":"The payload was larger than 16 MiB."}')
        return
    request = (
        f"POST /hooks/{agent}/{event} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"X-Backstory-Event: {event_id}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    status, reply = _send(request, time.monotonic() + NETWORK_S)
    if status == 0 and (fallback := _fallback(agent)) and event in fallback.STARTS_WORKER:
        started = _start_worker(fallback)
        # Where the answer is the session's context, it is worth waiting for.
        limit = deadline - 0.2
        while status == 0 and started and event in fallback.WAITS and time.monotonic() < limit:
            time.sleep(0.02)
            status, reply = _send(request, limit)
    if 200 <= status < 300:
        _print(reply)
        return
    _answer(agent, event)
    # No answer, trouble or a wrong key: it comes again. Refused for what it is: kept aside, for people to look at.
    again = status in (-1, 0, 401, 408, 429) or status >= 500
    if len(body) > LARGE:
        body = _strip_in_time(body, deadline, cut=True)
    _spool("spool" if again else "spool/rejected", name, body)


def _answer(agent: str, event: str) -> None:
    """Print what the agent expects when the worker has not answered."""
    if fallback := _fallback(agent):
        _print(fallback.REPLIES.get(event, b""))


def _fallback(agent: str):  # type: ignore[no-untyped-def]
    """What the agent's package says for the case that the worker does not answer; only then is it imported."""
    sys.path.append(__file__.rpartition("/")[0] + "/agents/" + agent.replace("-", "_"))
    try:
        import hook_fallback  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    return hook_fallback


def _version() -> bytes:
    """The version of the package that this file is in, for the plugin and `doctor` to compare."""
    source = posix.open(__file__.rpartition("/")[0] + "/__init__.py", posix.O_RDONLY)
    return posix.read(source, 4096).partition(b'__version__ = "')[2].partition(b'"')[0] + b"\n"


def _read(deadline: float) -> bytes | None:
    """The payload, stripped; None if it is too large. It is read to its end, or the agent would see a broken pipe."""
    chunks, size = [], 0
    while chunk := posix.read(0, 1 << 20):
        size += len(chunk)
        if size <= LARGEST:
            chunks.append(chunk)
    if size > LARGEST:
        return None
    body = b"".join(chunks)
    here = __file__.rpartition("/")[0]
    if here not in sys.path:
        sys.path.append(here)
    return _strip_in_time(body, deadline, secrets=len(body) <= LARGE)


def _strip_in_time(body: bytes, deadline: float, secrets: bool = True, cut: bool = False) -> bytes:
    """Without what is private. If there is no time for that, only what the event is called by is left of it: the worker
    takes the rest from the transcript."""
    _ring_at(deadline - SPARE_S)
    try:
        stripped = _strip(body, secrets, cut)
        _ring_at(deadline)
    except _Late:
        _ring_at(deadline)
        from privacy import names_only  # type: ignore[import-not-found,unused-ignore]

        stripped = names_only(body)
    return stripped


def _strip(body: bytes, secrets: bool, cut: bool) -> bytes:
    """Without what is private, where a cheap look says that there may be something; cut, without asking, to what the
    worker would store: of sixteen megabytes the look alone takes too long."""
    import prefilter  # type: ignore[import-not-found,unused-ignore]

    if not cut and not (prefilter.suspicious(body) if secrets else prefilter.tagged(body)):
        return body
    import privacy  # type: ignore[import-not-found,unused-ignore]

    strip = privacy.cut_bytes if cut else privacy.strip_bytes if secrets else privacy.untag_bytes
    stripped: bytes = strip(body)
    return stripped


def _go(data: str) -> None:
    """Into the data directory: relative names have no length limit, a socket's path has."""
    try:
        posix.chdir(data)
    except FileNotFoundError:
        posix.mkdir(data, 0o700)
        posix.chdir(data)


def _send(request: bytes, limit: float) -> tuple[int, bytes]:
    """Ask the worker. The status is 0 if nobody is there, -1 if somebody is and does not answer in time."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    status = 0
    try:
        connection.settimeout(max(0.01, limit - time.monotonic()))
        connection.connect("worker.sock")
        status = -1
        try:
            connection.sendall(request)
        except ConnectionError:
            pass  # a worker that refuses a body before its end has answered all the same
        answer = b""
        while True:
            connection.settimeout(max(0.01, limit - time.monotonic()))
            chunk = connection.recv(1 << 16)
            answer += chunk
            head, _, body = answer.partition(b"\r\n\r\n")
            if len(body) >= _length(head):
                return int(head[9:12]), body
            if not chunk:
                return int(head[9:12]), b""  # killed while it answered; half an answer is none
    except (OSError, ValueError):
        return status, b""
    finally:
        connection.close()


def _length(head: bytes) -> int:
    at = head.lower().find(b"content-length:")
    return int(head[at + 15 :].split(b"\r\n", 1)[0]) if at > 0 else 1 << 40


def _start_worker(fallback) -> bool:  # type: ignore[no-untyped-def]
    """Start the worker on its own, with nothing of ours attached."""
    quiet = [(posix.POSIX_SPAWN_OPEN, fd, "/dev/null", posix.O_RDWR, 0) for fd in (0, 1, 2)]
    environment = {
        k: v for k, v in posix.environ.items() if not k.startswith(fallback.VARIABLES) or k in fallback.LOGIN
    }
    try:
        posix.posix_spawn(
            "bin/backstory-worker", ["bin/backstory-worker"], environment, file_actions=quiet, setsid=True
        )
    except OSError:
        return False
    return True


def _spool(folder: str, name: str, body: bytes) -> None:
    """Leave the event where the worker finds it: whole or not at all, for its owner only."""
    for path in ("spool", folder):
        try:
            posix.mkdir(path, 0o700)
        except FileExistsError:
            continue
    # One byte for each KiB ever spooled: its length is the size of the spool without listing it. The worker resets it.
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
    # No interpreter shutdown: it costs a millisecond and could still print.
    posix._exit(0)
