"""install and uninstall: our hooks, MCP server and skill into an agent's files, and out again."""

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

_GONE = "#!/bin/sh\n# backstory was uninstalled; sessions that still run may call this, and nothing happens.\nexit 0\n"


def add(commands: Any) -> None:
    for name, run, text in (
        ("install", install, "put the hooks, the MCP server and the skill into an agent's files"),
        ("uninstall", uninstall, "take them out and stop the worker; what is remembered stays"),
    ):
        command = commands.add_parser(name, help=text, description=text.capitalize() + ".")
        command.add_argument(
            "--agent", default=DEFAULT_AGENT, choices=sorted(AGENTS), help=f"which agent ({DEFAULT_AGENT})"
        )
        command.add_argument(
            "--scope", default="user", choices=["user", "project"], help="for you, or this project only"
        )
        command.add_argument("--dry-run", action="store_true", help="show what would change, change nothing")
        command.set_defaults(run=run)


def install(options: argparse.Namespace) -> int:
    chosen, agent = settings.load(), AGENTS[options.agent]
    place = place_of(chosen, options.scope)
    parts = agent.parts(place)
    planned = [part.install(True) for part in parts]  # a file that can't be read is known before any is changed
    if options.dry_run:
        print("".join(each.diff() or f"{each.path} would stay as it is.\n" for each in planned), end="")
        return 0
    chosen.paths.prepare()
    write_shims(chosen)
    done = [part.install(False) for part in parts]
    for part, each in zip(parts, done, strict=True):
        print(f"{agent.name}: the {part.what} in {each.path}{' already' if each.what == 'unchanged' else ''}.")
    if done[0].what != "unchanged":
        print(agent.muted(place) or "The next session is remembered, and told what the ones before it did.")
        if options.scope == "project":
            print("These files are often shared: on a machine without backstory the hooks do nothing.")
    return 0


def uninstall(options: argparse.Namespace) -> int:
    # Whatever is wrong with the settings, one must be able to leave.
    chosen, agent = settings.bare(), AGENTS[options.agent]
    parts = agent.parts(place_of(chosen, options.scope))
    made_dirs = [directory for part in parts for directory in part.made_dirs()]
    changes = [part.uninstall(options.dry_run) for part in parts]
    if options.dry_run:
        print("".join(each.diff() or f"{each.path} holds nothing of ours.\n" for each in changes), end="")
        return 0
    # A folder that was made for one part may have held another until now.
    remove_empty(made_dirs)
    for part, each in zip(parts, changes, strict=True):
        outcome = "nothing of ours is" if each.what == "absent" else f"the {part.what} no longer"
        print(f"{agent.name}: {outcome} in {each.path}.")
    if not installed(chosen):
        _leave(chosen)
    return 0


def _leave(chosen: Settings) -> None:
    """Nobody calls us any more."""
    from backstory.worker import process

    if process.stop(chosen.paths):
        print("The worker is stopped.")
    hook = chosen.paths.hook
    if hook.exists():
        hook.write_text(_GONE)
    for shim in (chosen.paths.mcp, chosen.paths.start_worker, chosen.paths.command):
        shim.unlink(missing_ok=True)
    if chosen.data_dir.exists():
        print(f"What is remembered stays in {chosen.data_dir}; remove that folder to forget it all.")


def installed(chosen: Settings) -> list[str]:
    """Where our hooks are: by our own records, and by plugins."""
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
    """How settings name the hook: in a way that does no harm where it is gone.

    A project's settings travel to other people, who have it in their own home or not at all.
    """
    shim, home = chosen.paths.hook, Path.home()
    movable = scope == "project" and shim.is_relative_to(home) and not set('"`$\\') & set(str(shim))
    name = f'"$HOME/{shim.relative_to(home)}"' if movable else _quote(str(shim))
    return f"[ ! -x {name} ] || {name}"


def write_shims(chosen: Settings) -> None:
    """The programs that others call by a name that never changes."""
    package = Path(__file__).resolve().parent.parent
    # The hook needs no package: the plain interpreter starts faster than a virtual environment's.
    plain = getattr(sys, "_base_executable", None) or sys.executable
    for path in (package, Path(plain), Path(sys.executable), chosen.data_dir):
        if "\n" in str(path):
            raise BackstoryError(
                f"The path {str(path)!r} has a line break in it.", "Use BACKSTORY_DATA_DIR, or install somewhere else."
            )
    program = f"import sys\nsys.path.append({str(package)!r})\ntry:\n import hook\nexcept BaseException:\n pass"
    bridge = f"import sys\nsys.path.append({str(package)!r})\nimport mcp_bridge"
    data = _quote(str(chosen.data_dir))
    here = f"[ -x {_quote(plain)} ] && [ -f {_quote(str(package / 'hook.py'))} ]"
    shims = {
        # Where the interpreter or the package was taken away, the agent must not hear of it.
        chosen.paths.hook: (
            f'#!/bin/sh\n{here} && exec {_quote(plain)} -I -S -c {_quote(program)} {data} "$@"\nexit 0\n'
        ),
        chosen.paths.mcp: f"#!/bin/sh\nexec {_quote(plain)} -I -S -c {_quote(bridge)} {data}\n",
        # For agents, whose PATH may not have it.
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
