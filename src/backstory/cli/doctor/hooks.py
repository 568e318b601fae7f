"""Checks of the agent's side: the hooks in its settings or its plugin, the shim they call, its old transcripts."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backstory import __version__
from backstory.agents import AGENTS
from backstory.agents import install as installer
from backstory.agents.claude_code import settings as claude_code
from backstory.cli.agents import (
    called,
    install_tools,
    installed,
    kept_of,
    record_of,
    uninstall_tools,
    write_shims,
)
from backstory.cli.doctor.finding import Finding, Machine
from backstory.errors import SettingsUnreadable

AGENT = AGENTS["claude-code"]
SOON_DAYS = 7


def _files(scene: Machine) -> dict[str, Path]:
    """Where an agent that is started here looks for settings, the weakest first."""
    user, project = (AGENT.settings(scope, scene.home, scene.cwd, scene.env) for scope in ("user", "project"))
    found = {"user": user, "project": project, "local": project.with_name("settings.local.json")}
    return {name: path for name, path in found.items() if name == "user" or path != user}


def _commands(value: dict[str, Any]) -> list[str]:
    hooks = value.get("hooks")
    groups = [g for of in hooks.values() if isinstance(of, list) for g in of] if isinstance(hooks, dict) else []
    entries = [e for g in groups if isinstance(g, dict) and isinstance(g.get("hooks"), list) for e in g["hooks"]]
    return [str(entry.get("command")) for entry in entries if isinstance(entry, dict)]


def _places(scene: Machine) -> list[str]:
    """Who calls our hooks here: user, project, local, plugin."""
    values = {name: claude_code.read_settings(path) for name, path in _files(scene).items()}
    found = [name for name, value in values.items() if any(AGENT.ours(c) for c in _commands(value))]
    enabled: dict[str, Any] = {}
    for value in values.values():
        given = value.get("enabledPlugins")
        enabled |= given if isinstance(given, dict) else {}
    return [*found, "plugin"] if claude_code.plugin_enabled({"enabledPlugins": enabled}) else found


def shim(scene: Machine) -> Iterator[Finding]:
    """The program that hooks call: there, able to run, and of this version."""
    paths = scene.settings.paths
    if not _places(scene) and not installed(scene.settings):
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
    places, files = _places(scene), _files(scene)
    if not places and not installed(scene.settings):
        yield Finding(
            "hooks-missing",
            "No agent reports to backstory.",
            "`backstory install --agent claude-code`, or install the plugin.",
        )
    for scope in ("user", "project"):
        path = files.get(scope)
        if path is None:
            continue
        record = record_of(scene.settings, AGENT, path)
        if scope not in places and ("plugin" in places or not record.exists()):
            continue
        wanted = AGENT.hooks(called(scene.settings, scope))
        try:
            change = installer.install(path, wanted, AGENT.ours, record, dry_run=True)
        except SettingsUnreadable as error:
            yield Finding("settings-unreadable", str(error), error.hint)
            continue
        if change.what == "unchanged" or (scope == "project" and scope in places):
            continue  # a project's file is often other people's too, whose hooks may name another place

        def mend(path: Path = path, wanted: Any = wanted, record: Path = record) -> str:
            installer.install(path, wanted, AGENT.ours, record)
            return f"the hooks are in {path}."

        yield Finding(
            "hooks-missing",
            f"The hooks in {path} are not all there, or not those of this installation.",
            f"`backstory install --agent {AGENT.name} --scope {scope}` puts them there.",
            mend,
        )


def tools(scene: Machine) -> Iterator[Finding]:
    """The MCP server and the skill, where they were put."""
    for scope in (name for name in ("user", "project") if name in _files(scene)):  # at home they are one
        where = (scope, scene.home, scene.cwd, scene.env)
        files = [AGENT.servers(*where), AGENT.skill(*where)]
        if not any(kept_of(scene.settings, AGENT, file).exists() for file in files):
            continue
        try:
            lost = [c.path for c in install_tools(scene.settings, AGENT, scope, dry_run=True) if c.what != "unchanged"]
        except SettingsUnreadable as error:
            yield Finding("settings-unreadable", str(error), error.hint)
            continue

        def mend(scope: str = scope) -> str:
            return " ".join(f"{change.path}: {change.what}." for change in install_tools(scene.settings, AGENT, scope))

        if lost:
            yield Finding(
                "tools-missing",
                f"What lets an agent ask its memory is no longer in {' and '.join(map(str, lost))}.",
                f"`backstory install --agent {AGENT.name} --scope {scope}` puts it there.",
                mend,
            )


def doubled(scene: Machine) -> Iterator[Finding]:
    """Nothing is kept twice, but each event costs twice. Which of them to keep is clear only beside the plugin."""
    places = _places(scene)
    if len(places) < 2:
        return
    path = _files(scene)["user"]
    # On for the user, wherever a session is started: then the settings' own can go.
    clear = "user" in places and claude_code.plugin_enabled(claude_code.read_settings(path))

    def mend() -> str:
        installer.uninstall(path, AGENT.ours, record_of(scene.settings, AGENT, path))
        uninstall_tools(scene.settings, AGENT, "user")
        return f"taken out of {path}; the plugin brings the same ones."

    yield Finding(
        "hooks-doubled",
        f"The hooks are installed more than once: {', '.join(places)}. Nothing is kept twice, but each costs time.",
        "Keep one: `backstory uninstall --scope user` or `--scope project`, or `claude plugin uninstall backstory`.",
        mend if clear and "plugin" in places else None,
    )


def path(scene: Machine) -> Iterator[Finding]:
    if shutil.which("backstory", path=scene.env.get("PATH", "")) is None:
        yield Finding(
            "not-on-path",
            "A shell does not find `backstory`; the skill and other programs call it by that name.",
            f"Add {Path(sys.executable).parent} to PATH, or install with pipx.",
        )


def transcripts(scene: Machine) -> Iterator[Finding]:
    """Claude Code deletes old transcripts by itself. A setting of the user's, so it is named and left alone."""
    told = [claude_code.read_settings(file).get("cleanupPeriodDays") for file in _files(scene).values()]
    days = next((value for value in reversed(told) if value is not None), 30)
    if not isinstance(days, int | float):
        return
    limit = time.time() - max(days - SOON_DAYS, 0) * 86_400
    count = 0
    for root in AGENT.transcripts.roots(scene.home, scene.env):
        for file in root.glob("*/*.jsonl"):
            try:
                count += file.stat().st_mtime < limit
            except OSError:
                continue
    if count:
        yield Finding(
            "transcripts-expire",
            f"Claude Code will soon delete {count} transcripts: it keeps them for {days:g} days.",
            f'To keep them longer, set "cleanupPeriodDays" in {_files(scene)["user"]}.',
            note=True,
        )
