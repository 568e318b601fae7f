"""Checks of the worker: process, version, port, jobs, provider, embedder and events that were set aside."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

from backstory import __version__
from backstory.cli import show
from backstory.cli.doctor.finding import Finding, Machine
from backstory.cli.doctor.hooks import is_used
from backstory.cli.worker import connect, fetched
from backstory.errors import BackstoryError
from backstory.paths import read_object

#: How long the worker may take to stop before it is killed, in seconds.
STOP_S = 3.0
#: How long `repair` waits for retried events to be observed, in seconds.
RETRY_S = 20.0


def restart(machine: Machine) -> int:
    """Stop the worker, whatever state it is in, and start it. Return its process id."""
    from backstory.worker import process

    if machine.config_error:
        raise BackstoryError("The worker cannot start while config.toml cannot be read.")
    process.stop(machine.settings.paths, STOP_S)
    return int(connect(machine.settings).get("/api/health")["pid"])


def process(machine: Machine) -> Iterator[Finding]:
    """A worker that hangs, and files that a killed worker left behind."""
    paths = machine.settings.paths
    if machine.pid and machine.health is None:
        yield Finding(
            "worker-hung",
            f"The worker (pid {machine.pid}) runs but does not answer.",
            "Run `backstory repair` to kill it and start another. Events wait in the spool meanwhile.",
            lambda: f"killed pid {machine.pid}; the worker is now pid {restart(machine)}.",
        )
    if machine.pid is None:
        left = [file for file in (paths.socket, paths.worker) if file.exists()]
        left += [paths.lock] if paths.lock.exists() and paths.lock.stat().st_size else []
        if names := ", ".join(file.name for file in left):
            # The new worker checks the database, because the previous one crashed, and replaces these files.
            yield Finding(
                "worker-left-over",
                f"A worker that crashed or was killed left {names} behind.",
                "Run `backstory start` to start another. It replaces these files.",
                lambda: f"{names}: replaced by a new worker, pid {restart(machine)}.",
            )


def version(machine: Machine) -> Iterator[Finding]:
    if machine.health and machine.health.get("version") != __version__:
        yield Finding(
            "worker-version",
            f"The worker has version {machine.health.get('version')}, this command has {__version__}.",
            "Run `backstory restart` to start a worker of this version.",
            lambda: f"started the worker of version {__version__}, pid {restart(machine)}.",
        )


def away(machine: Machine) -> Iterator[Finding]:
    """No worker. It is a note where hooks start one, as after an installation."""
    if machine.health is None and machine.pid is None:
        yield Finding(
            "worker-away",
            "The worker is not running.",
            "It starts with the next session. Run `backstory start` to start it now.",
            lambda: f"started the worker, pid {restart(machine)}.",
            note=is_used(machine),
        )


def port(machine: Machine) -> Iterator[Finding]:
    """The worker's TCP port. Hooks do not need it; browsers and other programs do. A port that is taken is a
    note, and the setting stays: the other program may be gone tomorrow."""
    wanted, actual = machine.settings.port, machine.worker_file.get("port")
    if not machine.health or machine.config_error or not wanted or not actual or wanted == actual:
        return

    def repair() -> str:
        restart(machine)
        if read_object(machine.settings.paths.worker).get("port") != wanted:
            raise BackstoryError(f"Another program took port {wanted} in the meantime.")
        return f"port {wanted} is free again, and the worker uses it."

    is_free = _is_free(machine.settings.host, wanted)
    yield Finding(
        "port-taken",
        f"Another program {'used' if is_free else 'uses'} port {wanted}. The worker listens on {actual}.",
        "Hooks do not need it, and `backstory open` finds the worker. To have it back, end that program and run "
        "`backstory restart`.",
        repair if is_free else None,
        note=True,
    )


def _is_free(host: str, port: int) -> bool:
    """Whether the worker could listen on a port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the worker does
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def embedder(machine: Machine) -> Iterator[Finding]:
    """The embedder. Without it search uses words only; nothing else needs it."""
    vectors = fetched(machine.client, "/api/vectors") if machine.health else None
    if vectors and vectors["problem"]:
        yield Finding(
            "embedder-away",
            f"Search by meaning does not work: {vectors['problem']}",
            "Search by words works. Fix this, or run `backstory config set embedder static`.",
        )


def set_aside(machine: Machine) -> Iterator[Finding]:
    count = (machine.health or {}).get("queue", {}).get("dead", 0)
    if not count:
        return

    def repair() -> str:
        retried = machine.client.post("/api/queue/retry", {"id": 0})["changed"]
        until = time.monotonic() + RETRY_S
        while time.monotonic() < until:
            queue = machine.client.get("/api/health")["queue"]
            if not queue["queued"] and not queue["leased"]:
                break
            time.sleep(0.05)
        return f"events retried: {retried}."

    yield Finding(
        "events-set-aside",
        f"{show.count(count, 'event was', 'events were')} set aside, because observing failed.",
        "List them with `backstory queue list --dead`. Then run `backstory queue retry --all` or "
        "`backstory queue drop --all`.",
        repair,
    )


def jobs(machine: Machine) -> Iterator[Finding]:
    """Background jobs that failed recently. The worker restarts them itself."""
    for failing in (machine.health or {}).get("failing", []):
        yield Finding(
            "job-failing",
            f"A background job failed and is restarted with growing pauses: {failing}",
            "No event is lost. Please report this, with the lines in worker.log.",
            lambda: f"restarted the worker, pid {restart(machine)}.",
        )


def provider(machine: Machine) -> Iterator[Finding]:
    """A model that cannot be asked. It is only a note if the model is expected back soon."""
    health = machine.health or {}
    if problem := health.get("provider_trouble"):
        yield Finding(
            "provider-trouble",
            f"Provider {health.get('provider')}: {problem}",
            "No event is lost. Rules observe meanwhile; run `backstory reobserve` later to ask the model.",
            note=not health.get("provider_lasts"),
        )


def sandbox(machine: Machine) -> Iterator[Finding]:
    """The program in which agents of groups run. A machine without groups does not need it."""
    from backstory.groups import names, sandbox

    folders = [path.name for path in (machine.settings.data_dir / "groups").glob("*")]
    if machine.settings.group_sandbox == "none" or not {*folders} - {names.GLOBAL}:
        return
    try:
        sandbox.check_program(machine.settings.group_sandbox, machine.settings.data_dir)
    except BackstoryError as error:
        yield Finding("sandbox-missing", str(error), error.hint)
