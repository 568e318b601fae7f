"""start, stop, restart, worker, status and open: commands for the worker process."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backstory import __version__, settings
from backstory.cli import show
from backstory.client import Client
from backstory.errors import BackstoryError, BadSetting, WorkerAway
from backstory.paths import read_object
from backstory.settings import Settings

#: How long a worker may take to start, in seconds.
START_S = 30.0
#: How long a running worker may take to answer a health request, in seconds.
ANSWER_S = 3.0
#: How often `RetryingClient` sends a request before it gives up.
TRIES = 5
#: Exit codes of a worker that another command stopped while this one waited for it. Another worker may be started.
STOPPED = (0, -signal.SIGTERM, -signal.SIGKILL)


def add(commands: Any) -> None:
    for name, run, text in (
        ("start", start, "start the worker in the background"),
        ("stop", stop, "stop the worker"),
        ("restart", restart, "stop the worker and start it again"),
        ("worker", foreground, "run the worker in the foreground"),
    ):
        command = commands.add_parser(name, help=text, description=text.capitalize() + ".")
        if run is foreground:
            command.set_defaults(run=run, is_endless=True)
        else:
            command.runs_with_json(run)
    status_ = commands.add_parser("status", help="show the state of the worker, queue and installed agents")
    status_.description = (
        "Show the state of the worker, the queue and the installed agents. Exits with 1 if the worker does not answer."
    )
    status_.runs_with_json(status)
    open_ = commands.add_parser(
        "open", help="open the viewer in a browser", description="Open the viewer in a browser."
    )
    open_.add_argument("--print", action="store_true", help="only print the link; it is valid once, for two minutes")
    open_.runs_with_json(open_page)


def connect(chosen: Settings | None = None, timeout: float = 30.0) -> Client:
    """A client of the worker. Starts the worker if it does not run."""
    chosen = chosen or settings.load()
    if _health(Client(chosen.paths.socket, timeout=ANSWER_S)) is None:
        start_worker(chosen, patient=False)
    return Client(chosen.paths.socket, timeout)


class RetryingClient:
    """Sends requests that may be repeated. Starts the worker and tries again if it does not answer."""

    def __init__(self) -> None:
        self._client: Client | None = None

    def get(self, route: str, **query: Any) -> Any:
        return self._try(lambda client: client.get(route, **query))

    def post(self, route: str, body: dict[str, Any]) -> Any:
        return self._try(lambda client: client.post(route, body))

    def _try(self, call: Callable[[Client], Any]) -> Any:
        for attempt in range(1, TRIES + 1):
            try:
                self._client = self._client or connect()
                return call(self._client)
            except WorkerAway:
                self._client = None
                if attempt == TRIES:
                    raise
                time.sleep(0.2 * 2**attempt)
        raise AssertionError


def _health(client: Client) -> dict[str, Any] | None:
    try:
        answer: dict[str, Any] = client.get("/api/health")
    except WorkerAway:
        return None
    return answer


def _hung(pid: int) -> WorkerAway:
    return WorkerAway(f"The worker (pid {pid}) does not answer.", "Restart it with `backstory restart`.")


def start_worker(chosen: Settings, patient: bool = True) -> dict[str, Any]:
    """Wait until a worker answers, and start one whenever none runs. Other commands may start and stop it too. If not
    `patient`, give up on a worker that is known to serve but does not answer for three seconds."""
    from backstory.worker import process

    client = Client(chosen.paths.socket, timeout=ANSWER_S)
    child, log_bytes = None, chosen.paths.log.stat().st_size if chosen.paths.log.exists() else 0
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        pid = None if patient else process.serving_pid(chosen.paths)
        # If another worker answers, wait for our child to end. Else it would start serving when that one is stopped.
        if (health := _health(client)) and (child is None or child.pid == health["pid"] or child.poll() is not None):
            return health
        if health is None and pid and process.serving_pid(chosen.paths) == pid:
            raise _hung(pid)
        code = child.poll() if child else 0
        if code not in (None, *STOPPED):
            break
        if code is not None and process.running_pid(chosen.paths) is None:
            child = process.spawn(chosen)
        time.sleep(0.03)
    if pid := process.serving_pid(chosen.paths):
        raise _hung(pid)
    raise _not_started(chosen, process.running_pid(chosen.paths), log_bytes)


def _not_started(chosen: Settings, pid: int | None, log_bytes: int) -> WorkerAway:
    """Say what a worker that does not answer wrote to its log, which had so many bytes before."""
    try:
        with chosen.paths.log.open("rb") as log:
            log.seek(log_bytes if os.fstat(log.fileno()).st_size >= log_bytes else 0)  # it may have been rotated
            lines = log.read().decode("utf-8", "replace").strip().splitlines()[-2:]
    except OSError:
        lines = []
    # An error is followed by its hint.
    said = next((line for line in reversed(lines) if line.startswith("backstory: ")), lines[-1] if lines else "")
    said = said.removeprefix("backstory: ")[:300]
    hint = f"Its log is {show.path(chosen.paths.log)}."
    if pid is None:
        return WorkerAway(f"The worker did not start. {said}".strip(), hint)
    last = f"The last line of its log: {said}" if said else "It wrote nothing to its log."
    waited = f"The worker (pid {pid}) does not answer after {START_S:.0f} seconds. {last}"
    return WorkerAway(waited, f"{hint} `backstory status` shows whether it answers later.")


def start(options: argparse.Namespace) -> None:
    chosen = settings.load()
    before = _health(Client(chosen.paths.socket, timeout=ANSWER_S))
    health = before or start_worker(chosen)
    if show.printed_json(options, {"pid": health["pid"], "address": address(chosen), "started": before is None}):
        return
    print(f"The worker {'is already running' if before else 'is running'}: pid {health['pid']}, {address(chosen)}")


def address(chosen: Settings) -> str:
    """The viewer's address, with the port that the worker actually has."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(chosen.host, chosen.host)  # noqa: S104 - all includes this one
    host = f"[{host}]" if ":" in host else host
    port = read_object(chosen.paths.worker).get("port", chosen.port)
    return f"http://{host}:{port}/"


def stop(options: argparse.Namespace) -> None:
    stopped = _stop()
    if not show.printed_json(options, {"stopped": stopped}):
        _print_stopped(stopped)


def restart(options: argparse.Namespace) -> None:
    stopped = _stop()
    if not options.json:
        _print_stopped(stopped)
    start(options)


def _stop() -> bool:
    from backstory.worker import process

    return process.stop(settings.bare().paths)


def _print_stopped(stopped: bool) -> None:
    print("The worker is stopped." if stopped else "The worker is not running.")


def foreground(options: argparse.Namespace) -> None:
    import gc

    gc.disable()  # it takes half of the start-up time; `serve` enables it again
    from backstory.worker import process, serve

    chosen = settings.load()
    try:
        serve.run(chosen)
    except process.AlreadyRunning:
        print(f"A worker is already running for {chosen.data_dir}.")


def status(options: argparse.Namespace) -> int:
    from backstory.cli.agents import installed
    from backstory.cli.doctor import problems_at_once
    from backstory.worker import process

    try:
        chosen, problem = settings.load(), ""
    except BadSetting as error:
        chosen, problem = settings.bare(), str(error)
    problem = problem or ", ".join(f"`{name}` is not a setting" for name in settings.unknown(chosen.paths.config))
    client = Client(chosen.paths.socket, timeout=ANSWER_S)
    health = _health(client)
    pid = process.running_pid(chosen.paths)
    waiting, rejected = chosen.paths.spooled()
    report = {
        "running": health is not None,
        "pid": pid,
        "address": address(chosen) if health else None,
        "version": __version__,
        "health": health,
        "vectors": fetched(client, "/api/vectors") if health else None,
        "spool": {"waiting": waiting, "rejected": rejected},
        "data_dir": str(chosen.data_dir),
        "database": settings.shown("database_url", chosen.database_url) or str(chosen.paths.database),
        "database_bytes": sum(f.stat().st_size for f in chosen.data_dir.glob(f"{chosen.paths.database.name}*")),
        "config": problem,
        "port_wanted": chosen.port,
        "installed": installed(chosen),
        "problems": sorted({*health.get("problems", ()), *problems_at_once()}) if health else [],
    }
    if not show.printed_json(options, report):
        _print_status(report)
    return 0 if health else 1


def fetched(client: Client, route: str) -> dict[str, Any] | None:
    """The worker's answer to a request; None if it has none."""
    try:
        answer = client.get(route)
    except BackstoryError:
        return None
    return answer if isinstance(answer, dict) else None


def _search_line(vectors: dict[str, Any] | None) -> str:
    """How memory is searched, and how much of it is still to be prepared for that."""
    if vectors is None:
        return "not known"
    if vectors["problem"]:
        name = (vectors["next"] or vectors["embedder"]).partition(" ")[0] or "vectors"
        return f"by words; not by meaning: {name}: {vectors['problem']}"
    if not vectors["embedder"]:
        return "by words (`backstory config set embedder static` adds meaning)"
    due = f", {show.count(vectors['due'], 'text')} still to be prepared" if vectors["due"] else ""
    return f"by words and by meaning{due}"


def _observer_line(health: dict[str, Any]) -> str:
    """What turns events into observations."""
    if health["provider"] == "offline":
        return "rules on this machine, no model"
    return f"{health['provider']}" + (f", model {health['model']}" if health.get("model") else "")


def _queue_line(queue: dict[str, int]) -> str:
    waiting = queue["queued"] + queue["leased"]
    text = f"{show.count(waiting, 'event')} to be observed" if waiting else "everything is observed"
    return text + (f", {show.count(queue['dead'], 'event')} set aside (`backstory queue`)" if queue["dead"] else "")


def _put(label: str, text: str, code: str = "") -> None:
    """Print a line of the status, with its first word in a colour if `code` is given."""
    first, space, rest = text.partition(" ")
    show.line(show.Styled(f"{label:<10}", show.DIM), show.Styled(first, code) if code else first, space + rest)


def _print_status(report: dict[str, Any]) -> None:
    from backstory.agents import DEFAULT_AGENT

    if report["health"]:
        _print_health(report, report["health"])
    elif report["pid"]:
        _put("worker", f"pid {report['pid']} does not answer; restart it with `backstory restart`", show.RED)
    else:
        _put("worker", "not running; starts with the next session or `backstory start`", show.YELLOW)
    spool = report["spool"]
    if spool["waiting"]:
        _put("waiting", f"{show.count(spool['waiting'], 'event')} that hooks left for the worker")
    if spool["rejected"]:
        _put("rejected", f"{show.count(spool['rejected'], 'event')} of hooks; see `backstory doctor`", show.YELLOW)
    size = f" ({show.size(report['database_bytes'])})" if report["database_bytes"] else ""
    _put("data", f"{show.path(Path(report['data_dir']))}{size}")
    if "://" in report["database"]:
        _put("database", report["database"])
    if report["config"]:
        _put("config", report["config"], show.RED)
    if names := report["problems"]:
        _put("problems", f"{', '.join(names)} (`backstory doctor`)", show.RED)
    _put("agents", ", ".join(report["installed"]) or f"none; run `backstory install --agent {DEFAULT_AGENT}`")


def _print_health(report: dict[str, Any], health: dict[str, Any]) -> None:
    """Print what the worker says of itself."""
    up = show.duration(health["uptime_s"])
    _put("worker", f"running for {up}: pid {health['pid']}, version {health['version']}", show.GREEN)
    _put("viewer", f"{report['address']} (`backstory open`)")
    if report["port_wanted"] and not report["address"].endswith(f":{report['port_wanted']}/"):
        _put("", f"another program uses port {report['port_wanted']}; hooks do not need it")
    for failing in health.get("failing", []):
        _put("failing", f"{failing}; see `backstory doctor`", show.RED)
    if "database-unreadable" in health.get("problems", ()):
        _put("database", "the database cannot be read; see worker.log in the data directory", show.RED)
    if health.get("notice"):
        _put("notice", f"{health['notice']}; see `backstory doctor`", show.YELLOW)
    _put("queue", _queue_line(health["queue"]))
    _put("observer", _observer_line(health))
    if health.get("provider_trouble"):
        _put("", health["provider_trouble"], show.YELLOW)
    _put("search", _search_line(report["vectors"]))


def open_page(options: argparse.Namespace) -> None:
    chosen = settings.load()
    code = connect(chosen).post("/api/open")["code"]
    # A fragment, because it is never sent: not in a request, a log or a Referer.
    link = f"{address(chosen)}#code={code}"
    if options.print or options.json:
        if not show.printed_json(options, {"link": link}):
            print(link)
        return
    import webbrowser

    with show.typing():  # the browser may be one of the terminal
        is_open = webbrowser.open(link)
    if is_open:
        print(f"Opened {address(chosen)}")
    else:
        print(f"No browser was found. Open this link; it is valid once, for two minutes:\n{link}")
