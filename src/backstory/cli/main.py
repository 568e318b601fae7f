"""`backstory`: parses the command line and runs the command."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from backstory import __version__
from backstory.errors import BackstoryError

if TYPE_CHECKING:
    from backstory.cli.parser import Parser
    from backstory.cli.spinner import Spinner

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


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit. An expected error is printed as one sentence, without a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["hook"] and words[1:] not in (["-h"], ["--help"]):
        _hook(words[1:])  # first, because the imports below would slow down every event
    if words == ["mcp"]:
        _mcp()
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    _open_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack a character
    try:
        code = _run(words or ["--help"])
        sys.stdout.flush()
    except BrokenPipeError:
        _end_by_signal()
    except OSError as error:  # such as a full disk
        print(f"backstory: {error.strerror or error}", file=sys.stderr)
        code = 1
        _discard_output()
    sys.exit(code)


def _open_closed() -> None:
    """Open the null device in place of each standard stream that the caller has closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode)  # noqa: SIM115 - it is used until the end
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _end_by_signal() -> NoReturn:
    """End as other programs do if the reader of a pipe has closed it, as `head` does: silently, by a signal."""
    _discard_output()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)


def _discard_output() -> None:
    """Throw away what could not be written, so that Python does not try it again when it exits."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        with contextlib.suppress(OSError):
            os.fstat(number)
            os.dup2(nothing, number)


def _run(words: list[str]) -> int:
    """Run a command and return its exit code."""
    if words in (["version"], ["--version"]):
        print(f"backstory {__version__}")
        return 0
    from backstory.cli.spinner import spinning

    command = next((word for word in words if not word.startswith("-")), "")
    out, err = sys.stdout, sys.stderr
    with _escaping(out, err):
        try:
            options = parser(command).parse_args(words)
            run: Callable[[argparse.Namespace], int | None] = options.run
            is_endless = getattr(options, "is_endless", False)  # it runs until it is stopped
            with spinning(f"backstory {command}", not is_endless) as spinner, _escaping(out, err, spinner):
                return run(options) or 0
        except BackstoryError as error:
            print(f"backstory: {error}" + (f"\n{error.hint}" if error.hint else ""), file=sys.stderr)
            return 1
        except BrokenPipeError:
            raise
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            print(f"backstory: {error.strerror or error}{where}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
        except SystemExit as end:  # of the parser
            return end.code if isinstance(end.code, int) else 1


@contextlib.contextmanager
def _escaping(out: TextIO, err: TextIO, spinner: Spinner | None = None) -> Iterator[None]:
    from backstory.cli.show import Escaping

    with contextlib.redirect_stdout(Escaping(out, spinner)), contextlib.redirect_stderr(Escaping(err, spinner)):
        yield


def _hook(words: list[str]) -> None:
    """Pass on an agent's event from standard input. Always exits with 0: another code would disturb the agent, and 2
    would stop it. Agents call this only if the launch scripts do not work; those are written when a session starts."""
    from backstory import hook, settings

    try:
        if words != ["--version"] and (len(words) < 2 or not hook.is_known(words[0]) or os.isatty(0)):
            _explain_hook(words)
        data = str(settings.data_dir(settings.environment()))
        if words[1:] == ["SessionStart"]:
            from backstory.cli import shims

            shims.write_if_broken(settings.bare())
    except BaseException:
        os._exit(0)
    hook.main([data, *words])
    os._exit(0)


def _explain_hook(words: list[str]) -> NoReturn:
    """Say how the hook is used, to somebody who calls it by hand."""
    from backstory.agents import AGENTS

    is_known = len(words) < 2 or words[0] in AGENTS
    told = "Agents call this after `backstory install`." if is_known else f"The agent {words[0]!r} is not known."
    print(
        f"backstory: {told}\n"
        f"`backstory hook AGENT EVENT` reads JSON from standard input. AGENT is {' or '.join(AGENTS)}.",
        file=sys.stderr,
        flush=True,
    )
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
    top.takes_json()
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
