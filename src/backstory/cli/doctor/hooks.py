"""Checks of the agents' side: the hooks in settings or plugins, the shim that they call, old transcripts."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from backstory import __version__
from backstory.agents import AGENTS, DEFAULT_AGENT, Agent
from backstory.agents.install import InstalledPart
from backstory.cli.agents import installed, place_of, write_shims
from backstory.cli.doctor.finding import Finding, Machine
from backstory.errors import SettingsUnreadable

#: Transcripts that an agent will delete within so many days are told of.
SOON_DAYS = 7


def _parts(scene: Machine, agent: Agent) -> dict[str, tuple[InstalledPart, ...]]:
    """What is put into an agent's files, by scope. In the home directory both scopes are one."""
    user, project = (agent.parts(place_of(scene.settings, scope)) for scope in ("user", "project"))
    return {"user": user} if project[0].path == user[0].path else {"user": user, "project": project}


def _callers(scene: Machine, agent: Agent) -> list[str]:
    return agent.callers(place_of(scene.settings, "user"))


def _is_used(scene: Machine) -> bool:
    """Whether any agent calls our hooks, or is meant to."""
    return bool(installed(scene.settings)) or any(_callers(scene, agent) for agent in AGENTS.values())


def shim(scene: Machine) -> Iterator[Finding]:
    """The program that hooks call: there, able to run, and of this version."""
    paths = scene.settings.paths
    if not _is_used(scene):
        return

    def mend() -> str:
        write_shims(scene.settings)
        return f"{paths.bin} was written anew."

    do = "`backstory repair` writes it anew."
    if missing := [f.name for f in (paths.hook, paths.mcp, paths.start_worker) if not os.access(f, os.X_OK)]:
        yield Finding("hook-missing", f"{', '.join(missing)} is not in {paths.bin}; agents call it.", do, mend)
        return
    found = _version_of(paths.hook)
    if not found or not _interpreter(paths.start_worker).exists():
        yield Finding("hook-broken", f"{paths.bin} does not run: the Python it names, or backstory, is gone.", do, mend)
    elif found != __version__:
        yield Finding("hook-version", f"The hook is version {found}, this command {__version__}.", do, mend)


def _version_of(hook: Path) -> str:
    try:
        run = subprocess.run([hook, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip()[:40]


def _interpreter(start_worker: Path) -> Path:
    for line in start_worker.read_text("utf-8", "replace").splitlines():
        if line.startswith("exec "):
            return Path(shlex.split(line)[1])
    return Path("/nonexistent")


def settings(scene: Machine) -> Iterator[Finding]:
    """Hooks that were put into settings are there, all of them, and name this data directory's shim."""
    if not _is_used(scene):
        yield Finding(
            "hooks-missing",
            "No agent reports to backstory.",
            f"`backstory install --agent {DEFAULT_AGENT}`, or install the plugin.",
        )
    for agent in AGENTS.values():
        callers = _callers(scene, agent)
        for scope, (hooks, *_) in _parts(scene, agent).items():
            # A project's file is often other people's too, whose hooks may name another place.
            if scope in callers or ("plugin" not in callers and hooks.record.exists()):
                yield from _hooks_of(agent, scope, hooks, is_others=scope == "project" and scope in callers)


def _hooks_of(agent: Agent, scope: str, hooks: InstalledPart, is_others: bool) -> Iterator[Finding]:
    try:
        change = hooks.install(True)
    except SettingsUnreadable as error:
        yield Finding("settings-unreadable", str(error), error.hint)
        return
    if change.what == "unchanged" or is_others:
        return

    def mend() -> str:
        hooks.install(False)
        return f"the hooks are in {hooks.path}."

    yield Finding(
        "hooks-missing",
        f"The hooks in {hooks.path} are not all there, or not those of this installation.",
        f"`backstory install --agent {agent.name} --scope {scope}` puts them there.",
        mend,
    )


def tools(scene: Machine) -> Iterator[Finding]:
    """The MCP server and the skill, where they were put."""
    for agent in AGENTS.values():
        for scope, (_, *parts) in _parts(scene, agent).items():
            if any(part.record.exists() for part in parts):
                yield from _tools_of(agent, scope, parts)


def _tools_of(agent: Agent, scope: str, parts: list[InstalledPart]) -> Iterator[Finding]:
    try:
        lost = [part.path for part in parts if part.install(True).what != "unchanged"]
    except SettingsUnreadable as error:
        yield Finding("settings-unreadable", str(error), error.hint)
        return

    def mend() -> str:
        return " ".join(f"{change.path}: {change.what}." for change in [part.install(False) for part in parts])

    if lost:
        yield Finding(
            "tools-missing",
            f"What lets an agent ask its memory is no longer in {' and '.join(map(str, lost))}.",
            f"`backstory install --agent {agent.name} --scope {scope}` puts it there.",
            mend,
        )


def doubled(scene: Machine) -> Iterator[Finding]:
    """Nothing is kept twice, but each event costs twice. Which of them to keep is clear only beside the plugin."""
    for agent in AGENTS.values():
        callers = _callers(scene, agent)
        if len(callers) > 1:
            yield _doubled(scene, agent, callers)


def _doubled(scene: Machine, agent: Agent, callers: list[str]) -> Finding:
    # The plugin is on for the user, wherever a session is started: then the settings' own can go.
    is_clear = "user" in callers and "plugin" in callers and agent.plugin_enabled(place_of(scene.settings, "user"))
    parts = _parts(scene, agent)["user"]

    def mend() -> str:
        for part in parts:
            part.uninstall(False)
        return f"taken out of {parts[0].path}; the plugin brings the same ones."

    plugin = f", or `{agent.remove_plugin}`" if agent.remove_plugin else ""
    return Finding(
        "hooks-doubled",
        f"The hooks are installed more than once: {', '.join(callers)}. Nothing is kept twice, but each costs time.",
        f"Keep one: `backstory uninstall --scope user` or `--scope project`{plugin}.",
        mend if is_clear else None,
    )


def path(scene: Machine) -> Iterator[Finding]:
    if shutil.which("backstory", path=scene.env.get("PATH", "")) is None:
        yield Finding(
            "not-on-path",
            "A shell does not find `backstory`; the skill and other programs call it by that name.",
            f"Add {Path(sys.executable).parent} to PATH, or install with pipx.",
        )


def transcripts(scene: Machine) -> Iterator[Finding]:
    """Agents delete old transcripts by themselves. A setting of the user's, so it is named and left alone."""
    for agent in AGENTS.values():
        retention = agent.transcripts.retention(place_of(scene.settings, "user"))
        if retention is None:
            continue
        count = _expiring(scene, agent, time.time() - max(retention.days - SOON_DAYS, 0) * 86_400)
        if count:
            says = f"{agent.title} will soon delete {count} transcripts: it keeps them for {retention.days:g} days."
            yield Finding("transcripts-expire", says, retention.longer, note=True)


def _expiring(scene: Machine, agent: Agent, limit: float) -> int:
    """How many transcripts were last changed before a time."""
    count = 0
    for root in agent.transcripts.roots(scene.home, scene.env):
        for file in agent.transcripts.find(root):
            with contextlib.suppress(OSError):
                count += file.stat().st_mtime < limit
    return count
