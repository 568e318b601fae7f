"""The launch scripts in `bin` of the data directory. Agents call them by paths that never change."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from backstory.agents import AGENTS
from backstory.errors import BackstoryError
from backstory.paths import Paths, write_private
from backstory.settings import Settings

#: How long the hook may take to print its version, in seconds.
VERSION_S = 5.0
#: Replaces the hook after `uninstall`.
_EMPTY_HOOK = (
    "#!/bin/sh\n# backstory was uninstalled. Sessions that still run may call this; it does nothing.\nexit 0\n"
)
_GONE = "Its Python package is gone. Install it again (`pipx install backstory`), then run `backstory repair`."
#: Answers the first request of an MCP client with an error that it shows.
_ERROR = f'{{"jsonrpc":"2.0","id":\\1,"error":{{"code":-32000,"message":"{_GONE}"}}}}'
_SAY_GONE = f"""sed -n 's/.*"id": *\\([0-9]*\\).*/{_ERROR}/p;q'"""


def write(chosen: Settings) -> None:
    """Write the scripts, each as a whole."""
    for target, text in _texts(chosen).items():
        write_private(target, text.encode(errors="surrogateescape"), 0o700)


def remove(paths: Paths) -> None:
    """Remove the scripts. The hook stays as one that does nothing."""
    if paths.hook.exists():
        write_private(paths.hook, _EMPTY_HOOK.encode(), 0o700)
    for script in (paths.mcp, paths.start_worker, paths.command):
        script.unlink(missing_ok=True)


def missing(paths: Paths) -> list[str]:
    """Return the names of scripts that agents call and that cannot be run."""
    return [file.name for file in (paths.hook, paths.mcp, paths.start_worker) if not os.access(file, os.X_OK)]


def version(paths: Paths) -> str:
    """Return the version of the hook; empty if the Python or the package of the scripts is missing."""
    try:
        run = subprocess.run(
            [paths.hook, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=VERSION_S
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip()[:40] if _interpreter(paths.start_worker).exists() else ""


def write_if_broken(chosen: Settings) -> bool:
    """Write the scripts if one is missing or does not run. Return whether they were written."""
    if not missing(chosen.paths) and version(chosen.paths):
        return False
    chosen.paths.prepare()
    write(chosen)
    return True


def _interpreter(start_worker: Path) -> Path:
    for line in start_worker.read_text("utf-8", "replace").splitlines():
        if line.startswith("exec "):
            return Path(shlex.split(line)[1])
    return Path("/nonexistent")


def _texts(chosen: Settings) -> dict[Path, str]:
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
    data = quote(str(chosen.data_dir))
    here = f"[ -x {quote(plain)} ] && [ -f {quote(str(package / 'hook.py'))} ]"
    # If the interpreter or the package was removed, another installation takes over. Without one, the agent sees no
    # error, and its user a message at the start of a session.
    other = f"export BACKSTORY_DATA_DIR={data}\nif command -v backstory >/dev/null; then"
    tell = "".join(f'[ "$1" = {name} ] && {{ {agent.say(_GONE)}; }}\n' for name, agent in AGENTS.items() if agent.say)
    return {
        chosen.paths.hook: (
            f'#!/bin/sh\n{here} && exec {quote(plain)} -I -S -c {quote(program)} {data} "$@"\n'
            f'[ "$2" = SessionStart ] || exit 0\n{other} backstory hook "$@" 2>/dev/null && exit 0; fi\n{tell}exit 0\n'
        ),
        chosen.paths.mcp: (
            f"#!/bin/sh\n{here} && exec {quote(plain)} -I -S -c {quote(bridge)} {data}\n"
            f"{other} exec backstory mcp; fi\n{_SAY_GONE}\nexit 1\n"
        ),
        # For agents whose PATH does not have `backstory`.
        chosen.paths.command: (
            f'#!/bin/sh\nexport BACKSTORY_DATA_DIR={data}\nexec {quote(sys.executable)} -P -m backstory "$@"\n'
        ),
        chosen.paths.start_worker: (
            f"#!/bin/sh\numask 077\nexport BACKSTORY_DATA_DIR={data}\n"
            f"exec {quote(sys.executable)} -P -m backstory worker 2>>{quote(str(chosen.paths.log))}\n"
        ),
    }


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
