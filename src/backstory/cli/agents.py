"""install and uninstall: add hooks, MCP server and skill to an agent's files, and remove them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from backstory import settings
from backstory.agents import AGENTS, DEFAULT_AGENT
from backstory.agents.install import Place, remove_empty
from backstory.errors import BackstoryError
from backstory.settings import Settings

#: Replaces the hook after `uninstall`.
_EMPTY_HOOK = (
    "#!/bin/sh\n# backstory was uninstalled. Sessions that still run may call this; it does nothing.\nexit 0\n"
)


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
        command.add_argument("--dry-run", action="store_true", help="show the changes without making them")
        command.set_defaults(run=run)


def install(options: argparse.Namespace) -> int:
    chosen, agent = settings.load(), AGENTS[options.agent]
    place = place_of(chosen, options.scope)
    parts = agent.parts(place)
    planned = [part.install(True) for part in parts]  # raises on an unreadable file before any file is changed
    if options.dry_run:
        print("".join(change.diff() or f"{change.path} would not change.\n" for change in planned), end="")
        return 0
    chosen.paths.prepare()
    write_shims(chosen)
    changes = [part.install(False) for part in parts]
    for part, change in zip(parts, changes, strict=True):
        print(f"{agent.name}: the {part.what}{' already' if change.what == 'unchanged' else ''} in {change.path}.")
    if changes[0].what != "unchanged":
        print(agent.muted(place) or "The next session is recorded and gets the context of earlier ones.")
        if options.scope == "project":
            print("If you share these files: on a machine without backstory the hooks do nothing.")
    return 0


def uninstall(options: argparse.Namespace) -> int:
    # `bare`, because uninstalling must work even if config.toml cannot be read.
    chosen, agent = settings.bare(), AGENTS[options.agent]
    parts = agent.parts(place_of(chosen, options.scope))
    made_dirs = [directory for part in parts for directory in part.made_dirs()]
    changes = [part.uninstall(options.dry_run) for part in parts]
    if options.dry_run:
        print("".join(change.diff() or f"{change.path} would not change.\n" for change in changes), end="")
        return 0
    # A folder that was created for one part may have held another until now.
    remove_empty(made_dirs)
    for part, change in zip(parts, changes, strict=True):
        outcome = "nothing of backstory is" if change.what == "absent" else f"the {part.what} no longer"
        print(f"{agent.name}: {outcome} in {change.path}.")
    if not installed(chosen):
        _remove_shims(chosen)
    return 0


def _remove_shims(chosen: Settings) -> None:
    """Stop the worker and remove the shims after the last agent was uninstalled."""
    from backstory.worker import process

    if process.stop(chosen.paths):
        print("The worker is stopped.")
    hook = chosen.paths.hook
    if hook.exists():
        hook.write_text(_EMPTY_HOOK)
    for shim in (chosen.paths.mcp, chosen.paths.start_worker, chosen.paths.command):
        shim.unlink(missing_ok=True)
    if chosen.data_dir.exists():
        print(f"Memory is kept in {chosen.data_dir}. Delete that folder to forget everything.")


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
    """The shell command that settings hold for the hook. It does nothing if the hook is missing. A project's settings
    may be shared with people who have the hook in their own home, or not at all."""
    shim, home = chosen.paths.hook, Path.home()
    movable = scope == "project" and shim.is_relative_to(home) and not set('"`$\\') & set(str(shim))
    name = f'"$HOME/{shim.relative_to(home)}"' if movable else _quote(str(shim))
    return f"[ ! -x {name} ] || {name}"


def write_shims(chosen: Settings) -> None:
    """Write the programs that agents call. Their paths never change."""
    package = Path(__file__).resolve().parent.parent
    # The hook needs no installed package. The base interpreter starts faster than a virtual environment's.
    plain = getattr(sys, "_base_executable", None) or sys.executable
    for path in (package, Path(plain), Path(sys.executable), chosen.data_dir):
        if "\n" in str(path):
            raise BackstoryError(
                f"The path {str(path)!r} contains a line break.", "Set BACKSTORY_DATA_DIR, or install somewhere else."
            )
    program = f"import sys\nsys.path.append({str(package)!r})\ntry:\n import hook\nexcept BaseException:\n pass"
    bridge = f"import sys\nsys.path.append({str(package)!r})\nimport mcp_bridge"
    data = _quote(str(chosen.data_dir))
    here = f"[ -x {_quote(plain)} ] && [ -f {_quote(str(package / 'hook.py'))} ]"
    shims = {
        # If the interpreter or the package was removed, the hook exits with 0, so that the agent sees no error.
        chosen.paths.hook: (
            f'#!/bin/sh\n{here} && exec {_quote(plain)} -I -S -c {_quote(program)} {data} "$@"\nexit 0\n'
        ),
        chosen.paths.mcp: f"#!/bin/sh\nexec {_quote(plain)} -I -S -c {_quote(bridge)} {data}\n",
        # For agents whose PATH does not have `backstory`.
        chosen.paths.command: (
            f'#!/bin/sh\nexport BACKSTORY_DATA_DIR={data}\nexec {_quote(sys.executable)} -P -m backstory "$@"\n'
        ),
        chosen.paths.start_worker: (
            f"#!/bin/sh\numask 077\nexport BACKSTORY_DATA_DIR={data}\n"
            f"exec {_quote(sys.executable)} -P -m backstory worker 2>>{_quote(str(chosen.paths.log))}\n"
        ),
    }
    chosen.paths.bin.mkdir(mode=0o700, parents=True, exist_ok=True)
    for target, text in shims.items():
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(0o700)
        temporary.replace(target)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
