"""install and uninstall: our hooks, MCP server and skill into an agent's files, and out again."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from backstory import settings
from backstory.agents import AGENTS, Agent, claude_code, servers, skill
from backstory.agents import install as installer
from backstory.agents.install import FileChange
from backstory.errors import BackstoryError
from backstory.settings import Settings

_GONE = "#!/bin/sh\n# backstory was uninstalled; sessions that still run may call this, and nothing happens.\nexit 0\n"


#: What is put into an agent's files, in this order.
_PARTS = ("hooks are", "MCP server is", "skill is")


def add(commands: Any) -> None:
    for name, run, text in (
        ("install", install, "put the hooks, the MCP server and the skill into an agent's files"),
        ("uninstall", uninstall, "take them out and stop the worker; what is remembered stays"),
    ):
        command = commands.add_parser(name, help=text, description=text.capitalize() + ".")
        command.add_argument("--agent", default="claude-code", choices=sorted(AGENTS), help="which agent (claude-code)")
        command.add_argument(
            "--scope", default="user", choices=["user", "project"], help="for you, or this project only"
        )
        command.add_argument("--dry-run", action="store_true", help="show what would change, change nothing")
        command.set_defaults(run=run)


def install(options: argparse.Namespace) -> int:
    chosen, agent = settings.load(), AGENTS[options.agent]
    path = settings_file(agent, options.scope)
    hooks, record = agent.hooks(called(chosen, options.scope)), record_of(chosen, agent, path)

    def changes(dry_run: bool) -> list[FileChange]:
        return [
            installer.install(path, hooks, agent.ours, record, dry_run),
            *install_tools(chosen, agent, options.scope, dry_run),
        ]

    planned = changes(dry_run=True)  # a file that can't be read is known before any of them is changed
    if options.dry_run:
        print("".join(each.diff() or f"{each.path} would stay as it is.\n" for each in planned), end="")
        return 0
    chosen.paths.prepare()
    write_shims(chosen)
    done = changes(dry_run=False)
    for name, each in zip(_PARTS, done, strict=True):
        print(f"{agent.name}: the {name} in {each.path}{' already' if each.what == 'unchanged' else ''}.")
    if done[0].what != "unchanged":
        muted = agent.muted(path.read_bytes())
        print(muted or "The next session is remembered, and told what the ones before it did.")
        if options.scope == "project":
            print("These files are often shared: on a machine without backstory the hooks do nothing.")
    return 0


def uninstall(options: argparse.Namespace) -> int:
    # Whatever is wrong with the settings, one must be able to leave.
    chosen, agent = settings.bare(), AGENTS[options.agent]
    path = settings_file(agent, options.scope)
    record = record_of(chosen, agent, path)
    known = installer.InstallRecord.load(record)
    changes = [
        installer.uninstall(path, agent.ours, record, options.dry_run),
        *uninstall_tools(chosen, agent, options.scope, options.dry_run),
    ]
    if options.dry_run:
        print("".join(each.diff() or f"{each.path} holds nothing of ours.\n" for each in changes), end="")
        return 0
    # A folder that was made for the settings may have held the skill until now.
    installer.remove_empty(known.made_dirs if known else ())
    for name, each in zip(_PARTS, changes, strict=True):
        told = "nothing of ours is" if each.what == "absent" else f"the {name} no longer"
        print(f"{agent.name}: {told} in {each.path}.")
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


def install_tools(chosen: Settings, agent: Agent, scope: str, dry_run: bool = False) -> tuple[FileChange, FileChange]:
    """The MCP server and the skill."""
    servers_file, skill_file = _tools(agent, scope)
    usual = chosen.data_dir == Path.home() / ".backstory"
    entry = servers.server("" if usual else str(chosen.paths.mcp))
    return (
        servers.install(servers_file, entry, kept_of(chosen, agent, servers_file), dry_run),
        skill.install(skill_file, kept_of(chosen, agent, skill_file), dry_run),
    )


def uninstall_tools(chosen: Settings, agent: Agent, scope: str, dry_run: bool = False) -> tuple[FileChange, FileChange]:
    servers_file, skill_file = _tools(agent, scope)
    return (
        servers.uninstall(servers_file, kept_of(chosen, agent, servers_file), dry_run),
        skill.uninstall(skill_file, kept_of(chosen, agent, skill_file), dry_run),
    )


def _tools(agent: Agent, scope: str) -> tuple[Path, Path]:
    where = (scope, Path.home(), Path.cwd(), settings.environment())
    return agent.servers(*where), agent.skill(*where)


def installed(chosen: Settings) -> list[str]:
    """Where our hooks are: by our own records, and by the plugin."""
    found = []
    for file in sorted(chosen.paths.installs.glob("*.json")):
        agent, _, rest = file.stem.rpartition("-")
        found.append(agent or rest)
    its, row = claude_code.settings, claude_code.AGENT
    if its.plugin_enabled(its.read_settings(settings_file(row, "user"))):
        found.append(f"{row.name} (plugin)")
    return found


def called(chosen: Settings, scope: str) -> str:
    """How settings name the hook: in a way that does no harm where it is gone.

    A project's settings travel to other people, who have it in their own home or not at all.
    """
    shim, home = chosen.paths.hook, Path.home()
    movable = scope == "project" and shim.is_relative_to(home) and not set('"`$\\') & set(str(shim))
    name = f'"$HOME/{shim.relative_to(home)}"' if movable else _quote(str(shim))
    return f"[ ! -x {name} ] || {name}"


def settings_file(agent: Agent, scope: str) -> Path:
    return agent.settings(scope, Path.home(), Path.cwd(), settings.environment())


def record_of(chosen: Settings, agent: Agent, path: Path) -> Path:
    mark = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    return chosen.paths.installs / f"{agent.name}-{mark}.json"


def kept_of(chosen: Settings, agent: Agent, path: Path) -> Path:
    """The record of a server or a skill; only those of hooks say where an agent reports."""
    return record_of(chosen, agent, path).with_suffix(".kept")


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
