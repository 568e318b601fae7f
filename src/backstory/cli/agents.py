"""install and uninstall: add hooks, MCP server and skill to an agent's files, and remove them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backstory import settings
from backstory.agents import AGENTS, DEFAULT_AGENT
from backstory.agents.install import FileChange, InstalledPart, Place, remove_empty
from backstory.cli import hints, shims, show
from backstory.settings import Settings


def add(commands: Any) -> None:
    for name, run, text in (
        ("install", install, "add the hooks, the MCP server and the skill to an agent's files"),
        ("uninstall", uninstall, "remove hooks, MCP server and skill, and stop the worker; memory is kept"),
    ):
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        command.add_argument(
            "--agent", default=DEFAULT_AGENT, choices=sorted(AGENTS), help=f"the agent (default: {DEFAULT_AGENT})"
        )
        command.add_argument(
            "--scope", default="user", choices=["user", "project"], help="for all your projects, or for this one"
        )
        command.add_argument("--dry-run", action="store_true", help="say what would be changed, and change nothing")
        command.add_argument("--diff", action="store_true", help="the same, line by line")
        command.runs_with_json(run)


def install(options: argparse.Namespace) -> None:
    chosen, agent = settings.load(), AGENTS[options.agent]
    place = place_of(chosen, options.scope)
    parts = agent.parts(place)
    planned = [part.install(True) for part in parts]  # raises on an unreadable file before any file is changed
    if options.dry_run or options.diff:
        _plan(options, parts, planned)
        return
    chosen.paths.prepare()
    shims.write(chosen)
    changes = [part.install(False) for part in parts]
    if _printed_json(options, parts, changes):
        return
    for part, change in zip(parts, changes, strict=True):
        already = " already" if change.what == "unchanged" else ""
        print(f"{agent.name}: the {part.what}{already} in {show.path(change.path)}.")
    if changes[0].what != "unchanged":
        print(agent.muted(place) or "The next session is recorded and gets the context of earlier ones.")
        roots = agent.transcripts.roots(place.home, place.env)
        if any(True for root in roots for _ in agent.transcripts.find(root)):
            print(hints.earlier(agent))
        if options.scope == "project":
            print("If you share these files: on a machine without backstory the hooks do nothing.")


def uninstall(options: argparse.Namespace) -> None:
    # `bare`, because uninstalling must work even if config.toml cannot be read.
    chosen, agent = settings.bare(), AGENTS[options.agent]
    parts = agent.parts(place_of(chosen, options.scope))
    made_dirs = [directory for part in parts for directory in part.made_dirs()]
    changes = [part.uninstall(options.dry_run or options.diff) for part in parts]
    if options.dry_run or options.diff:
        _plan(options, parts, changes)
        return
    # A folder that was created for one part may have held another until now.
    remove_empty(made_dirs)
    has_stopped = not installed(chosen) and _remove_shims(chosen)
    if _printed_json(options, parts, changes):
        return
    for part, change in zip(parts, changes, strict=True):
        if change.what != "absent":
            print(f"{agent.name}: the {part.what} no longer in {show.path(change.path)}.")
    if all(change.what == "absent" for change in changes):
        print(f"{agent.name}: nothing of backstory is in its files.")
    if has_stopped:
        print("The worker is stopped.")
    if not installed(chosen) and chosen.data_dir.exists():
        print(f"Memory is kept in {show.path(chosen.data_dir)}. Delete that folder to forget everything.")


def _remove_shims(chosen: Settings) -> bool:
    """Stop the worker and remove the shims after the last agent was uninstalled. Return whether a worker ran."""
    from backstory.worker import process

    has_stopped = process.stop(chosen.paths)
    shims.remove(chosen.paths)
    return has_stopped


def _printed_json(options: argparse.Namespace, parts: Sequence[InstalledPart], changes: Sequence[FileChange]) -> bool:
    rows = [
        {"part": part.what.rpartition(" ")[0], "path": str(change.path), "did": change.what, "change": change.summary()}
        for part, change in zip(parts, changes, strict=True)
    ]
    return show.printed_json(options, {"agent": options.agent, "parts": rows})


def _plan(options: argparse.Namespace, parts: Sequence[InstalledPart], changes: Sequence[FileChange]) -> None:
    """Print what would be changed: a line for each file, or every line with --diff."""
    if _printed_json(options, parts, changes):
        return
    for part, change in zip(parts, changes, strict=True):
        if options.diff:
            print(change.diff() or f"{change.path} would not change.\n", end="")
        else:
            print(f"{show.path(change.path)} ({part.what.rpartition(' ')[0]}): {change.summary()}")
    if not options.diff:
        print("Nothing was changed. --diff shows every line.")


def installed(chosen: Settings) -> list[str]:
    """The agents that have our hooks, from the records of installs and from plugins."""
    names = []
    for file in sorted(chosen.paths.installs.glob("*.json")):
        agent, _, rest = file.stem.rpartition("-")
        names.append(agent or rest)
    place = place_of(chosen, "user")
    return names + [f"{agent.name} (plugin)" for agent in AGENTS.values() if agent.plugin_enabled(place)]


def place_of(chosen: Settings, scope: str) -> Place:
    """This machine and directory, as agents' parts see them."""
    home = Path.home()
    mcp = "" if chosen.data_dir == home / ".backstory" else str(chosen.paths.mcp)
    records = chosen.paths.installs
    return Place(scope, home, Path.cwd(), settings.environment(), called(chosen, scope), mcp, records)


def called(chosen: Settings, scope: str) -> str:
    """The hook, as the shell finds it. A project's settings may be shared with people who have it in their own home."""
    shim, home = chosen.paths.hook, Path.home()
    movable = scope == "project" and shim.is_relative_to(home) and not set('"`$\\') & set(str(shim))
    return f'"$HOME/{shim.relative_to(home)}"' if movable else shims.quote(str(shim))
