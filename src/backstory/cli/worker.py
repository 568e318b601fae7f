"""The worker's commands: start, stop, restart, status, worker, open."""

from __future__ import annotations

import argparse
import json
import signal
import time
from typing import Any

from backstory import __version__, settings
from backstory.cli import show
from backstory.client import Client
from backstory.errors import BackstoryError, BadSetting, WorkerAway
from backstory.settings import Settings

#: How long a worker may take to come up, in seconds.
START_S = 30.0
#: How long a worker that runs may take to say that it does, in seconds.
ANSWER_S = 3.0
#: How a worker ended that another command stopped while we waited for it: another may be started.
STOPPED = (0, -signal.SIGTERM, -signal.SIGKILL)


def add(commands: Any) -> None:
    for name, run, text in (
        ("start", start, "start the worker in the background"),
        ("stop", stop, "stop the worker"),
        ("restart", restart, "stop the worker and start it again"),
        ("worker", foreground, "run the worker in the foreground"),
    ):
        commands.add_parser(name, help=text, description=text.capitalize() + ".").set_defaults(run=run)
    status_ = commands.add_parser("status", help="show whether all is well", description="Show whether all is well.")
    status_.add_argument("--json", action="store_true", help="print JSON")
    status_.set_defaults(run=status)
    open_ = commands.add_parser("open", help="open the page in a browser", description="Open the page in a browser.")
    open_.add_argument("--print", action="store_true", help="only print the address; it lets one browser in, once")
    open_.set_defaults(run=open_page)


def connect(chosen: Settings | None = None) -> Client:
    """The worker, started if it is away."""
    chosen = chosen or settings.load()
    if _health(Client(chosen.paths.socket, timeout=ANSWER_S)) is None:
        _start(chosen, patient=False)
    return Client(chosen.paths.socket)


def _health(client: Client) -> dict[str, Any] | None:
    try:
        answer: dict[str, Any] = client.get("/api/health")
    except WorkerAway:
        return None
    return answer


def _hung(pid: int) -> WorkerAway:
    return WorkerAway(f"The worker (pid {pid}) does not answer.", "`backstory restart` starts it anew.")


def _start(chosen: Settings, patient: bool = True) -> dict[str, Any]:
    """Wait for a worker that answers, and start one whenever none runs: other commands may start and stop it too.

    Who is not patient gives up on a worker that did answer once and does not do so for three seconds.
    """
    from backstory.worker import process

    client = Client(chosen.paths.socket, timeout=ANSWER_S)
    child = None
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        pid = None if patient else process.serving(chosen.paths)
        # A child that came too late is waited for: else it would take over from a worker that is stopped next.
        if (health := _health(client)) and (child is None or child.pid == health["pid"] or child.poll() is not None):
            return health
        if health is None and pid and process.serving(chosen.paths) == pid:
            raise _hung(pid)
        code = child.poll() if child else 0
        if code not in (None, *STOPPED):
            break
        if code is not None and process.holder(chosen.paths) is None:
            child = process.spawn(chosen)
        time.sleep(0.03)
    if pid := process.serving(chosen.paths):
        raise _hung(pid)
    raise WorkerAway(f"The worker did not start. {_last_words(chosen)}".strip(), f"Its log is {chosen.paths.log}.")


def _last_words(chosen: Settings) -> str:
    """What it said last: the sentence of an error, not the hint after it."""
    try:
        lines = chosen.paths.log.read_text("utf-8", "replace").strip().splitlines()[-2:]
        sentence = next((line for line in reversed(lines) if line.startswith("backstory: ")), lines[-1])
        return sentence.removeprefix("backstory: ")[:300]
    except (OSError, IndexError):
        return ""


def start(options: argparse.Namespace) -> int:
    chosen = settings.load()
    before = _health(Client(chosen.paths.socket, timeout=ANSWER_S))
    health = before or _start(chosen)
    print(f"The worker {'runs already' if before else 'is up'}: pid {health['pid']}, {address(chosen)}")
    return 0


def address(chosen: Settings) -> str:
    """Where the page is."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(chosen.host, chosen.host)  # noqa: S104 - all includes this one
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{_told(chosen).get('port', chosen.port)}/"


def _told(chosen: Settings) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(chosen.paths.worker.read_bytes())
    except (OSError, ValueError):
        return {}
    return told


def stop(options: argparse.Namespace) -> int:
    from backstory.worker import process

    stopped = process.stop(settings.bare().paths)
    print("The worker is stopped." if stopped else "No worker runs.")
    return 0


def restart(options: argparse.Namespace) -> int:
    stop(options)
    return start(options)


def foreground(options: argparse.Namespace) -> int:
    import gc

    gc.disable()  # half of the start; `serve` turns it on again
    from backstory.worker import process, serve

    chosen = settings.load()
    try:
        serve.run(chosen)
    except process.AlreadyRunning:
        print(f"A worker runs already for {chosen.data_dir}.")
    return 0


def status(options: argparse.Namespace) -> int:
    from backstory.cli.agents import installed
    from backstory.worker import process

    try:
        chosen, trouble = settings.load(), ""
    except BadSetting as error:
        chosen, trouble = settings.bare(), str(error)
    trouble = trouble or ", ".join(f"`{name}` is no setting" for name in settings.unknown(chosen.paths.config))
    client = Client(chosen.paths.socket, timeout=ANSWER_S)
    health = _health(client)
    pid = process.holder(chosen.paths)
    waiting, rejected = chosen.paths.spooled()
    found = {
        "running": health is not None,
        "pid": pid,
        "address": address(chosen) if health else None,
        "version": __version__,
        "health": health,
        "vectors": _vectors(client) if health else None,
        "spool": {"waiting": waiting, "rejected": rejected},
        "data_dir": str(chosen.data_dir),
        "database": settings.shown("database_url", chosen.database_url) or str(chosen.paths.database),
        "database_bytes": sum(f.stat().st_size for f in chosen.data_dir.glob(f"{chosen.paths.database.name}*")),
        "config": trouble,
        "port_wanted": chosen.port,
        "installed": installed(chosen),
    }
    if options.json:
        show.as_json(found)
    else:
        _print_status(found)
    return 0 if health else 1


def _vectors(client: Client) -> dict[str, Any] | None:
    try:
        told: dict[str, Any] = client.get("/api/vectors")
    except BackstoryError:
        return None
    return told


def _meaning(told: dict[str, Any] | None) -> str:
    """How far search by meaning is."""
    if told is None:
        return "not known"
    made = f"{told['vectors']:,} vectors by {told['embedder']}" if told["embedder"] else "none, search goes by words"
    due = f", {told['due']:,} to be made" if told["due"] else ""
    by = f" by {told['next']}" if told["next"] and due else ""
    return f"{made}{due}{by}" + (f"; {told['problem']}" if told["problem"] else "")


def _print_status(found: dict[str, Any]) -> None:
    health = found["health"]
    if health:
        minutes = int(health["uptime_s"] // 60)
        show.line(f"worker    running: pid {health['pid']}, up {minutes} min, version {health['version']}")
        show.line(f"address   {found['address']} (`backstory open`)")
        if found["port_wanted"] and not found["address"].endswith(f":{found['port_wanted']}/"):
            show.line(f"          another program has port {found['port_wanted']}; hooks do not need it")
        for failing in health.get("failing", []):
            show.line(f"failing   {failing}; see `backstory doctor`")
        if health["status"] != "ok" and not health.get("failing"):
            show.line("store     the database can not be read; see worker.log in the data directory")
        if health.get("notice"):
            show.line(f"notice    {health['notice']}; see `backstory doctor`")
        queue = health["queue"]
        show.line(f"queue     {queue['queued']} waiting, {queue['leased']} at work, {queue['dead']} set aside")
        model = f" ({health['model']})" if health.get("model") else ""
        show.line(f"provider  {health['provider']}{model}")
        if health.get("provider_trouble"):
            show.line(f"          {health['provider_trouble']}")
        show.line(f"meaning   {_meaning(found['vectors'])}")
    elif found["pid"]:
        show.line(f"worker    pid {found['pid']} does not answer; `backstory restart` starts it anew")
    else:
        show.line("worker    not running; it starts with the next session, or `backstory start`")
    spool = found["spool"]
    show.line(f"spool     {spool['waiting']} waiting, {spool['rejected']} rejected")
    size = f" (database {show.size(found['database_bytes'])})" if found["database_bytes"] else ""
    show.line(f"data      {found['data_dir']}{size}")
    if "://" in found["database"]:
        show.line(f"database  {found['database']}")
    if found["config"]:
        show.line(f"config    {found['config']}")
    show.line(f"agents    {', '.join(found['installed']) or 'none; `backstory install --agent claude-code`'}")


def open_page(options: argparse.Namespace) -> int:
    chosen = settings.load()
    code = connect(chosen).post("/api/open")["code"]
    link = f"{address(chosen)}#code={code}"  # a fragment: it is in no request, log or Referer
    if options.print:
        print(link)
        return 0
    import webbrowser

    if webbrowser.open(link):
        print(f"Opened {address(chosen)}")
    else:
        print(f"No browser was found. This link lets one in, once, within two minutes:\n{link}")
    return 0
