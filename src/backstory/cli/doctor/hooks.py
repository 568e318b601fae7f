"""Checks of the agents: hooks, MCP servers and skills, the shims that they call, and transcripts that expire."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from backstory import __version__
from backstory.agents import AGENTS, DEFAULT_AGENT, Agent
from backstory.agents.install import InstalledPart
from backstory.cli import shims, show
from backstory.cli.agents import installed, place_of
from backstory.cli.doctor.finding import Finding, Machine
from backstory.errors import SettingsUnreadable
from backstory.paths import is_observers
from backstory.sessions import kept

#: Transcripts that an agent will delete within this many days are reported.
EXPIRES_DAYS = 7


def _parts(machine: Machine, agent: Agent) -> dict[str, tuple[InstalledPart, ...]]:
    """scope -> the parts that are installed into an agent's files. In the home directory both scopes are the same."""
    user, project = (agent.parts(place_of(machine.settings, scope)) for scope in ("user", "project"))
    return {"user": user} if project[0].path == user[0].path else {"user": user, "project": project}


def _callers(machine: Machine, agent: Agent) -> list[str]:
    return agent.callers(place_of(machine.settings, "user"))


def is_used(machine: Machine) -> bool:
    """Whether an agent calls our hooks, or the hooks were installed."""
    return bool(installed(machine.settings)) or any(_callers(machine, agent) for agent in AGENTS.values())


def shim(machine: Machine) -> Iterator[Finding]:
    """The program that hooks call: it exists, runs, and has this version."""
    paths = machine.settings.paths
    if not is_used(machine):
        return

    def repair() -> str:
        shims.write(machine.settings)
        return f"wrote the programs in {paths.bin}."

    do = "Run `backstory repair` to write it again."
    if missing := shims.missing(paths):
        yield Finding("hook-missing", f"Agents call {', '.join(missing)}, which is missing in {paths.bin}.", do, repair)
        return
    version = shims.version(paths)
    if not version:
        says = f"The hook in {paths.bin} does not run: its Python or its backstory is missing."
        yield Finding("hook-broken", says, do, repair)
    elif version != __version__:
        yield Finding("hook-version", f"The hook has version {version}, this command has {__version__}.", do, repair)


def settings(machine: Machine) -> Iterator[Finding]:
    """Installed hooks: all of them are in the settings and call the shim of this data directory."""
    if not is_used(machine):
        yield Finding(
            "hooks-missing",
            "No agent reports to backstory.",
            f"Run `backstory install --agent {DEFAULT_AGENT}`, or install the plugin.",
        )
    for agent in AGENTS.values():
        callers = _callers(machine, agent)
        for scope, (hooks, *_) in _parts(machine, agent).items():
            if scope in callers or ("plugin" not in callers and hooks.record.exists()):
                says = "Hooks are missing in {}, or belong to another installation."
                found = _missing("hooks-missing", agent, scope, [hooks], says, "wrote the hooks to {0.path}.")
                # A project's file may be shared with other people, whose hooks may call another path.
                is_others = scope == "project" and scope in callers
                yield from (finding for finding in found if not (finding.repair and is_others))


def tools(machine: Machine) -> Iterator[Finding]:
    """The MCP server and the skill, where they were installed."""
    for agent in AGENTS.values():
        for scope, (_, *parts) in _parts(machine, agent).items():
            if any(part.record.exists() for part in parts):
                says = "The MCP server or the skill is missing in {}."
                yield from _missing("tools-missing", agent, scope, parts, says, "{0.path}: {0.what}.")


def _missing(name: str, agent: Agent, scope: str, parts: list[InstalledPart], says: str, did: str) -> Iterator[Finding]:
    """Parts that are not as `install` writes them. `says` names their files, `did` is said of each file repaired."""
    try:
        missing = [str(part.path) for part in parts if part.install(True).what != "unchanged"]
    except SettingsUnreadable as error:
        yield Finding("settings-unreadable", str(error), error.hint)
        return

    def repair() -> str:
        return " ".join(did.format(change) for change in [part.install(False) for part in parts])

    if missing:
        do = f"Run `backstory install --agent {agent.name} --scope {scope}`."
        yield Finding(name, says.format(" and ".join(missing)), do, repair)


def doubled(machine: Machine) -> Iterator[Finding]:
    """Hooks that are installed twice. Nothing is stored twice, but each event takes twice the time."""
    for agent in AGENTS.values():
        callers = _callers(machine, agent)
        if len(callers) > 1:
            yield _doubled(machine, agent, callers)


def _doubled(machine: Machine, agent: Agent, callers: list[str]) -> Finding:
    # Repaired only if the plugin is enabled for the user. It then works in every directory, and settings need no hooks.
    is_clear = "user" in callers and "plugin" in callers and agent.plugin_enabled(place_of(machine.settings, "user"))
    parts = _parts(machine, agent)["user"]

    def repair() -> str:
        for part in parts:
            part.uninstall(False)
        return f"removed the hooks from {parts[0].path}; the plugin has the same ones."

    plugin = f", or `{agent.remove_plugin}`" if agent.remove_plugin else ""
    return Finding(
        "hooks-doubled",
        f"The hooks are installed more than once: {', '.join(callers)}. Nothing is stored twice, but each takes time.",
        f"Keep one. Run `backstory uninstall --scope user` or `--scope project`{plugin}.",
        repair if is_clear else None,
    )


def path(machine: Machine) -> Iterator[Finding]:
    if shutil.which("backstory", path=machine.env.get("PATH", "")) is None:
        yield Finding(
            "not-on-path",
            "`backstory` is not on PATH. The skill and other programs call it by that name.",
            f"Add {Path(sys.executable).parent} to PATH, or install backstory with pipx.",
            note=True,
        )


def transcripts(machine: Machine) -> Iterator[Finding]:
    """Transcripts that an agent will delete soon and that are not kept. The user's setting decides when."""
    for agent in AGENTS.values():
        retention = agent.transcripts.retention(place_of(machine.settings, "user"))
        if retention is None:
            continue
        files = _expiring(machine, agent, time.time() - max(retention.days - EXPIRES_DAYS, 0) * 86_400)
        keeping = agent.transcripts.keeping
        if files and keeping and machine.health:
            known = {row["content_session_id"] for row in kept.listed(machine.client, agent=agent.name, whole="true")}
            files = [file for file in files if keeping.session_of(file) not in known]
        if files:
            many = show.count(len(files), "transcript that is", "transcripts that are")
            says = f"{agent.title} will soon delete {many} not kept. It deletes them after {retention.days:g} days."
            do = "To keep them, run `backstory sessions keep --all`. " if keeping else ""
            do = f"{do}{retention.longer}"
            yield Finding("transcripts-expire", says, do, note=True)


def _expiring(machine: Machine, agent: Agent, limit: float) -> list[Path]:
    """The transcripts that were last changed before a time."""
    files = []
    for root in agent.transcripts.roots(machine.home, machine.env):
        for file in agent.transcripts.find(root):
            with contextlib.suppress(OSError):
                files += [file] if file.stat().st_mtime < limit and not is_observers(file) else []
    return files
