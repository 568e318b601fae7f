"""Checks of the worker: does it run, does it answer, is it ours, has it its port, what did it set aside."""

from __future__ import annotations

import time
from collections.abc import Iterator

from backstory import __version__
from backstory import settings as stored
from backstory.cli.doctor.finding import Finding, Machine
from backstory.cli.worker import connect
from backstory.errors import BackstoryError

STOP_S = 3.0
QUIET_S = 20.0


def restart(scene: Machine) -> int:
    """Stop the worker, whatever state it is in, and start it; its process id."""
    from backstory.worker import process

    if scene.config_error:
        raise BackstoryError("No worker would start as long as config.toml can not be read.")
    process.stop(scene.settings.paths, STOP_S)
    return int(connect(scene.settings).get("/api/health")["pid"])


def process(scene: Machine) -> Iterator[Finding]:
    """One that hangs, and what one that was killed left behind."""
    paths = scene.settings.paths
    if scene.pid and scene.health is None:
        yield Finding(
            "worker-hung",
            f"The worker (pid {scene.pid}) runs and does not answer.",
            "`backstory repair` ends it and starts another; what hooks send meanwhile waits in the spool.",
            lambda: f"ended pid {scene.pid}; the worker is pid {restart(scene)} now.",
        )
    if scene.pid is None:
        left = [file for file in (paths.socket, paths.worker) if file.exists()]
        left += [paths.lock] if paths.lock.exists() and paths.lock.stat().st_size else []
        if left:
            names = ", ".join(file.name for file in left)

            def tidy() -> str:
                # Started, it checks the database, because the one before did not end well, and makes these files anew.
                return f"{names}: taken over by a new worker, pid {restart(scene)}."

            yield Finding(
                "worker-left-over",
                f"A worker that did not end well left {names} behind.",
                "`backstory start` starts one that takes over.",
                tidy,
            )


def version(scene: Machine) -> Iterator[Finding]:
    if scene.health and scene.health.get("version") != __version__:
        yield Finding(
            "worker-version",
            f"The worker is version {scene.health.get('version')}, this command {__version__}.",
            "`backstory restart` starts the worker of this version.",
            lambda: f"the worker of version {__version__} runs, pid {restart(scene)}.",
        )


def away(scene: Machine) -> Iterator[Finding]:
    if scene.health is None and scene.pid is None:
        yield Finding(
            "worker-away",
            "No worker runs.",
            "It starts with the next session; `backstory start` starts it now.",
            lambda: f"the worker is up, pid {restart(scene)}.",
        )


def port(scene: Machine) -> Iterator[Finding]:
    """Hooks do not need it; people and other programs do."""
    wanted, got = scene.settings.port, scene.told.get("port")
    if not scene.health or scene.config_error or not wanted or not got or wanted == got:
        return

    def mend() -> str:
        restart(scene)
        from backstory.cli.doctor.finding import look

        now = look().told.get("port")
        if now == wanted:
            return f"port {wanted} is free again, and the worker's."
        if stored.sources().get("port") == "BACKSTORY_PORT":
            raise BackstoryError(f"BACKSTORY_PORT asks for port {wanted}, and goes before what is written.")
        stored.change(scene.settings.paths.config, "port", now)
        return f"`port` is {now} in config.toml from now on, where the worker listens."

    yield Finding(
        "port-taken",
        f"Port {wanted} is taken by another program; the worker listens on {got}.",
        f"End that program and `backstory restart`, or `backstory config set port {got}`.",
        mend,
    )


def embedder(scene: Machine) -> Iterator[Finding]:
    """Search goes by words then; nothing else is in want of it."""
    if scene.health is None:
        return
    try:
        told = scene.client.get("/api/vectors")
    except BackstoryError:
        return
    if told["problem"]:
        yield Finding(
            "embedder-away",
            f"{told['due']} things can not be found by their meaning yet: {told['problem']}",
            "Words find them. Mend what it says, or `backstory config set embedder static` and `backstory restart`.",
        )


def set_aside(scene: Machine) -> Iterator[Finding]:
    count = (scene.health or {}).get("queue", {}).get("dead", 0)
    if not count:
        return

    def mend() -> str:
        tried = scene.client.post("/api/queue/retry", {"id": 0})["changed"]
        until = time.monotonic() + QUIET_S
        while time.monotonic() < until:
            queue = scene.client.get("/api/health")["queue"]
            if not queue["queued"] and not queue["leased"]:
                break
            time.sleep(0.05)
        return f"{tried} tried again."

    yield Finding(
        "events-set-aside",
        f"{count} events could not be turned into memory and were set aside.",
        "`backstory queue list --dead` shows them; `backstory queue retry --all` or `backstory queue drop --all`.",
        mend,
    )


def jobs(scene: Machine) -> Iterator[Finding]:
    """Background jobs that failed lately; each is started again by itself."""
    for failing in (scene.health or {}).get("failing", []):
        yield Finding(
            "job-failing",
            f"A part of the worker failed and is started again with growing pauses: {failing}",
            "Nothing that was sent is lost. worker.log tells each failure; please report it.",
            lambda: f"the worker was restarted, pid {restart(scene)}.",
        )


def provider(scene: Machine) -> Iterator[Finding]:
    """A model that was chosen and can't be asked; one that only pauses is a note."""
    health = scene.health or {}
    if trouble := health.get("provider_trouble"):
        yield Finding(
            "provider-trouble",
            f"Provider {health.get('provider')}: {trouble}",
            "Nothing is lost: the rules observe meanwhile, and `backstory reobserve` does it over with the model.",
            note=not health.get("provider_lasts"),
        )
