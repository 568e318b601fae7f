"""`backstory`: parses the command line and runs the command."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from backstory import __version__
from backstory.errors import BackstoryError

if TYPE_CHECKING:
    from backstory.cli.parser import Parser

#: module in `cli` -> the commands that it adds, in the order of `--help`
NOUNS = {
    "agents": ("install", "uninstall"),
    "worker": ("start", "stop", "restart", "worker", "status", "open"),
    "doctor": ("doctor", "repair"),
    "memory": ("search", "show", "context"),
    "overview": ("timeline", "stats"),
    "curate": ("remember", "pin", "supersede", "hide", "forget"),
    "edit": ("edit", "merge"),
    "sessions": ("sessions",),
    "resume": ("resume",),
    "groups": ("groups",),
    "queue": ("queue",),
    "reindex": ("reindex",),
    "reobserve": ("reobserve",),
    "exchange": ("export",),
    "imports": ("import",),
    "config": ("config",),
    "completion": ("completion",),
}
#: heading -> the commands that `--help` lists under it
HEADINGS = {
    "Start": ("install", "uninstall", "status", "doctor", "repair"),
    "Memory": (
        "search",
        "show",
        "context",
        "timeline",
        "remember",
        "edit",
        "merge",
        "pin",
        "supersede",
        "hide",
        "forget",
        "stats",
    ),
    "Sessions": ("sessions", "resume", "groups"),
    "Worker": ("start", "stop", "restart", "open", "queue", "reindex", "reobserve"),
    "Data and settings": ("import", "export", "config", "completion", "version"),
    "Called by other programs": ("worker", "hook", "mcp"),
}
#: Commands without a spinner: they run until they are stopped.
_ENDLESS = (("worker",), ("groups", "chat"))


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit. An expected error is printed as one sentence, without a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["hook"]:
        _hook(words[1:])  # first, because the imports below would slow down every event
    if words == ["mcp"]:
        _mcp()
    if words in (["version"], ["--version"]):
        print(f"backstory {__version__}")
        sys.exit()
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words:
        words = ["--help"]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack a character
    from backstory.cli.show import Escaping
    from backstory.cli.spinner import spinning

    is_endless = any(tuple(words[: len(each)]) == each for each in _ENDLESS)
    with spinning(f"backstory {words[0]}", not is_endless) as spinner:
        out, err = Escaping(sys.stdout, spinner), Escaping(sys.stderr, spinner)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
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
            sys.stderr.close()  # the reader closed the pipe, as `head` does; this is not an error
            sys.exit(0)
        where = f": {error.filename}" if error.filename else ""
        print(f"backstory: {error.strerror or error}{where}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _hook(words: list[str]) -> None:
    """Pass on an agent's event from standard input. Always exits with 0. Agents call this only if the launch scripts do
    not work; those are written when a session starts."""
    import os

    from backstory import hook, settings

    try:
        data = str(settings.data_dir(settings.environment()))
        if words[1:] == ["SessionStart"]:
            from backstory.cli import shims

            shims.write_if_broken(settings.bare())
    except BaseException:
        os._exit(0)
    hook.main([data, *words])
    os._exit(0)


def _mcp() -> None:
    """Serve MCP messages on standard input until it is closed."""
    from backstory import mcp_bridge, settings

    mcp_bridge.main([str(settings.data_dir(settings.environment()))])


def parser(command: str = "") -> Parser:
    """Build the parser. If `command` is known, only its module is imported, which makes the start faster."""
    from backstory.cli import examples
    from backstory.cli.parser import Parser

    top = Parser(
        prog="backstory",
        description="Memory for AI coding agents. backstory records each session and informs the next one.",
    )
    top.add_argument("--version", action="version", version=f"backstory {__version__}", help="show the version")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    wanted = [noun for noun, words in NOUNS.items() if command in words]
    for noun in wanted if command in ("version", "--version") else wanted or NOUNS:
        importlib.import_module(f"backstory.cli.{noun}").add(commands)
    hook = commands.add_parser("hook", help="read an agent's event from standard input (called by agents)")
    hook.add_argument("agent", metavar="AGENT")
    hook.add_argument("event", metavar="EVENT")
    text = "Serve memory as MCP tools on standard input and output. Agents call this."
    commands.add_parser("mcp", help="serve memory as MCP tools (called by agents)", description=text)
    version = commands.add_parser("version", help="show the version")
    version.runs_with_json(_version)
    top.headings = HEADINGS
    top.describe()
    examples.add(top)
    return top


def _version(options: argparse.Namespace) -> None:
    from backstory.cli import show

    show.as_json({"version": __version__})
