"""The parser of the command line: suggests the word that was meant, and prints help with examples."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from backstory.cli import show
from backstory.settings import near

#: Words that other programs use -> the command that does it here.
ALIASES = {
    "add": "remember",
    "delete": "forget",
    "find": "search",
    "list": "sessions",
    "log": "timeline",
    "ls": "sessions",
    "remove": "forget",
    "rm": "forget",
    "settings": "config",
    "unpin": "pin --off",
    "view": "show",
}
_HEADING = re.compile(r"^(?:usage(?=: )|[A-Za-z][\w ]*(?=:$))", re.MULTILINE)
_REQUIRED = "the following arguments are required: "
_NO_VALUE = re.compile(r"argument (?:\S+/)?(-\S+?): expected (?:one|at least one) argument")
_NO_NUMBER = re.compile(r"argument (?:\S+/)?(\S+?): invalid int value: '(.*)'", re.DOTALL)


class Help(argparse.HelpFormatter):
    """Wraps descriptions, prints examples as they are, and lists the choices of an option in its description."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("Examples:") else super()._fill_text(text, width, indent)

    def _metavar_formatter(self, action: argparse.Action, default_metavar: str) -> Any:
        if action.option_strings and action.metavar is None and action.choices:
            return lambda size: (default_metavar,) * size
        return super()._metavar_formatter(action, default_metavar)

    def _expand_help(self, action: argparse.Action) -> str:
        choices = list(action.choices or ()) if action.option_strings else []
        return super()._expand_help(action) + (f": {_either(choices)}" if len(choices) > 1 else "")


class Parser(argparse.ArgumentParser):
    """A parser for one command or action."""

    def __init__(self, **given: Any) -> None:
        defaults: dict[str, Any] = {"formatter_class": Help, "add_help": False}
        super().__init__(**defaults | given)
        self.add_argument("-h", "--help", action="help", help="show this help")
        self._positionals.title = "arguments"
        self.headings: Mapping[str, Sequence[str]] = {}  #: heading -> the commands that the help lists under it

    def runs_with_json(self, run: Callable[[argparse.Namespace], int | None]) -> None:
        """Set what the command runs, and add the option --json, with which that prints JSON."""
        self.takes_json()
        self.set_defaults(run=run)

    # Its type has overloads, which differ in how `namespace` is passed.
    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Parse a whole command line. An unknown option is named, with the one that was meant."""
        words = self.ordered(args or ())
        options, unknown = self.parse_known_args(words, namespace)
        if unknown:
            leaf = self.leaf(words)
            wrong = next((word for word in unknown if word.startswith("-")), "")
            if wrong:
                name = wrong.partition("=")[0]
                known = [known for known in leaf._option_string_actions if known.startswith("--")]
                leaf.fail(f"There is no option `{name}`.", near(name, known))
            leaf.fail(f"`{unknown[0]}` is one word too many.")
        return options

    def ordered(self, words: Sequence[str]) -> list[str]:
        """Move options that stand before a command or action behind it: `groups --json list`. argparse would replace
        their values by the defaults of the action."""
        parser, names, moved, rest = self, list[str](), list[str](), list(words)
        while rest and (children := parser.children()):
            if child := children.get(rest[0]):
                parser = child
                names.append(rest.pop(0))
            elif length := parser.option_length(rest[0]):
                moved += rest[:length]
                del rest[:length]
            else:
                break
        return [*names, *moved, *rest]

    def option_length(self, word: str) -> int:
        """Return how many words an option takes with its value; 0 if this is not an option that can be moved."""
        name, has_value, _ = word.partition("=")
        action = self._option_string_actions.get(name)
        if action is None or isinstance(action, argparse._VersionAction):
            return 0
        return 1 if has_value or action.nargs == 0 else 2

    def takes_json(self) -> None:
        """Add the option --json to a command whose actions have it. `ordered` passes it on to them."""
        self.add_argument("--json", action="store_true", help="print JSON")

    def leaf(self, words: Iterable[str]) -> Parser:
        """Return the parser of the command or action that these words name."""
        parser = self
        for word in words:
            parser = parser.children().get(word, parser)
        return parser

    def children(self) -> dict[str, Parser]:
        """Return the parsers of the commands or actions below this one."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def describe(self) -> None:
        """Give each command below this one its line in the list of commands as a description, if it has no other."""
        for line in (line for action in self._actions for line in _lines(action)):
            child = self.children()[line.dest]
            if not child.description and line.help:
                child.description = f"{line.help[0].upper()}{line.help[1:]}."
            child.describe()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices: list[str] = list(action.choices or ())
        if not choices or value in choices:
            return
        if not isinstance(action, argparse._SubParsersAction):
            name = "/".join(action.option_strings) or str(action.metavar)
            self.fail(f"{name} must be {_either(choices)}, not `{value}`.", near(str(value), choices))
        noun = str(action.metavar or "action").lower()
        alias = ALIASES.get(value) if noun == "command" else None
        place = "" if noun == "command" else f" of `{self.prog}`"
        self.fail(
            f"There is no {noun} `{value}`{place}.", f"Did you mean `{alias}`?" if alias else near(value, choices)
        )

    def error(self, message: str) -> NoReturn:
        if message.startswith(_REQUIRED):
            missing = message.removeprefix(_REQUIRED).split(", ")
            message = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing."
        elif match := _NO_NUMBER.match(message):
            message = f"{match[1]} must be a whole number, not `{match[2]}`."
        elif match := _NO_VALUE.match(message):
            message = f"{match[1]} needs a value."
        self.fail(message if message.endswith(".") else f"{message}.")

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Print what is wrong with the command line, and exit."""
        sys.stderr.write(f"backstory: {message}" + (f" {hint}" if hint else "") + "\n")
        sys.stderr.write(f"Run `{self.prog} --help` to see what it takes.\n")
        sys.exit(2)

    def format_help(self) -> str:
        lines = {line.dest: line for action in self._actions for line in _lines(action)}
        if not lines:
            return super().format_help()
        below = next(action for action in self._actions if _lines(action))
        headings = self.headings or {f"{str(below.metavar or 'action').lower()}s": tuple(lines)}
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for heading, names in headings.items():
            formatter.start_section(heading)
            formatter.add_arguments([lines[name] for name in names if name in lines])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _print_message(self, message: str, file: Any = None) -> None:
        out = file or sys.stdout
        show.put(_HEADING.sub(lambda match: show.coloured(match[0], show.BOLD, out), message), out)


def _lines(action: argparse.Action) -> list[argparse.Action]:
    """Return the lines of the help about the commands below a parser."""
    return list(action._choices_actions) if isinstance(action, argparse._SubParsersAction) else []


def _either(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]
