"""`backstory`: reads the command line and hands it to the file of its noun."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from backstory import __version__
from backstory.errors import BackstoryError

#: The files of the nouns, in the order of `--help`, and the commands that each of them adds.
NOUNS = {
    "agents": ("install", "uninstall"),
    "worker": ("start", "stop", "restart", "worker", "status", "open"),
    "doctor": ("doctor", "repair"),
    "memory": ("search", "show", "context"),
    "overview": ("timeline", "stats"),
    "curate": ("remember", "pin", "supersede", "forget"),
    "sessions": ("sessions",),
    "queue": ("queue",),
    "reindex": ("reindex",),
    "reobserve": ("reobserve",),
    "exchange": ("export",),
    "imports": ("import",),
    "config": ("config",),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command; one clear sentence on error, never a stack trace for a mistake of the user's."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["hook"]:
        _hook(words[1:])  # before anything is imported: it is paid for with every event
    if words == ["mcp"]:
        _mcp()
    if words[:1] == ["version"]:
        words[:1] = ["--version"]
    if not words:
        words = ["--help"]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may not know every sign
    from backstory.cli.show import Escaping

    with contextlib.redirect_stdout(Escaping(sys.stdout)), contextlib.redirect_stderr(Escaping(sys.stderr)):
        _run(words)


def _run(words: list[str]) -> NoReturn:
    try:
        options = parser(words[0]).parse_args(words)
        run: Callable[[argparse.Namespace], int | None] = options.run
        code = run(options) or 0
    except BackstoryError as error:
        print(f"backstory: {error}" + (f"\n{error.hint}" if error.hint else ""), file=sys.stderr)
        code = 1
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            sys.stderr.close()  # the reader of our output has gone; that is no error
            sys.exit(0)
        where = f": {error.filename}" if error.filename else ""
        print(f"backstory: {error.strerror or error}{where}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _hook(words: list[str]) -> None:
    """An agent's event on standard input; always exits 0."""
    import os

    from backstory import hook, settings

    try:
        data = str(settings.data_dir(settings.environment()))
    except BaseException:
        os._exit(0)
    hook.main([data, *words])
    os._exit(0)


def _mcp() -> None:
    """An agent's MCP messages on standard input, until they end."""
    from backstory import mcp_bridge, settings

    mcp_bridge.main([str(settings.data_dir(settings.environment()))])


def parser(command: str = "") -> argparse.ArgumentParser:
    """Every command, from the files of the nouns; of a command that is known only its own file is read."""
    top = argparse.ArgumentParser(
        prog="backstory",
        description="Memory for AI coding agents: what happens in one session is known in the next.",
    )
    top.add_argument("--version", action="version", version=f"backstory {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    wanted = [noun for noun, words in NOUNS.items() if command in words]
    for noun in wanted if command == "--version" else wanted or NOUNS:
        importlib.import_module(f"backstory.cli.{noun}").add(commands)
    hook = commands.add_parser("hook", help="take an agent's event from standard input (agents call this)")
    hook.add_argument("agent", metavar="AGENT")
    hook.add_argument("event", metavar="EVENT")
    text = "Serve the memory as MCP tools on standard input and output (agents call this)."
    commands.add_parser("mcp", help="serve the memory as MCP tools (agents call this)", description=text)
    commands.add_parser("version", help="show the version")
    return top
