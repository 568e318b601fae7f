"""completion: prints a script that completes commands and options in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backstory.cli.parser import Parser

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class Word:
    """A word that can come next."""

    text: str
    help: str
    values: tuple[str, ...] = ()  #: of an option
    takes_value: bool = False


def add(commands: Any) -> None:
    text = "Print a script that completes commands and options in a shell."
    top = commands.add_parser("completion", help="print a script for the completion of a shell", description=text)
    top.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    top.set_defaults(run=completion)


def completion(options: argparse.Namespace) -> None:
    from backstory.cli.main import parser

    table = dict(places(parser()))
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](table), end="")


def places(parser: Parser, path: str = "") -> Iterator[tuple[str, list[Word]]]:
    """Yield each command and action, and the words that can follow it."""
    words: list[Word] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words += [Word(line.dest, line.help or "") for line in action._choices_actions]
        elif action.option_strings:
            values = tuple(map(str, action.choices or ()))
            words.append(Word(action.option_strings[-1], action.help or "", values, action.nargs != 0))
        else:
            words += [Word(str(choice), "") for choice in action.choices or ()]
    words += [Word(name, text) for name, text in _settings(path)]
    yield path, sorted(words, key=lambda word: word.text.startswith("-"))
    for name, child in parser.children().items():
        yield from places(child, f"{path} {name}".strip())


def _settings(path: str) -> Iterator[tuple[str, str]]:
    from backstory import settings

    if path in ("config get", "config set", "config unset"):
        yield from ((name, settings.sentence(name).partition(".")[0]) for name in settings.NAMES)


def _bash(table: dict[str, list[Word]]) -> str:
    words = "\n".join(
        f"        '{path}') words='{' '.join(word.text for word in each)}' ;;" for path, each in table.items()
    )
    values = "\n".join(
        f"        '{path} {word.text}') words='{' '.join(word.values)}' ;;"
        for path, each in table.items()
        for word in each
        if word.takes_value
    )
    return f"""# bash completion for backstory
_backstory() {{
    local path='' words='' word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case " {" ".join(path.replace(" ", "_") for path in table if path)} " in
            *" ${{path:+${{path}}_}}$word "*) path="${{path:+${{path}}_}}$word" ;;
        esac
    done
    path="${{path//_/ }}"
    case "$path ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
        *) case "$path" in
{words}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _backstory backstory
"""


def _zsh(table: dict[str, list[Word]]) -> str:
    places_ = "\n".join(
        f"        ({_quoted(path)}) reply=({' '.join(_quoted(_described(word)) for word in each)}) ;;"
        for path, each in table.items()
    )
    values = "\n".join(
        f"        ({_quoted(f'{path} {word.text}')}) compadd -- {' '.join(word.values)}; return ;;"
        for path, each in table.items()
        for word in each
        if word.values
    )
    free = "|".join(
        _quoted(f"{path} {word.text}")
        for path, each in table.items()
        for word in each
        if word.takes_value and not word.values
    )
    return f"""#compdef backstory
_backstory() {{
    local place='' word longer
    local -a reply known
    known=({" ".join(_quoted(path) for path in table if path)})
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        longer="${{place:+$place }}$word"
        (( ${{known[(Ie)$longer]}} )) && place="$longer"
    done
    case "$place ${{words[CURRENT-1]}}" in
{values}
        ({free}) _files; return ;;
    esac
    case "$place" in
{places_}
    esac
    _describe 'backstory' reply || _files
}}
if [[ ${{funcstack[1]}} == _backstory ]]; then
    _backstory "$@"
else
    compdef _backstory backstory
fi
"""


def _fish(table: dict[str, list[Word]]) -> str:
    lines = [
        "# fish completion for backstory",
        "function __backstory_at",
        "    set -l place",
        f"    set -l known {' '.join(_quoted(path) for path in table if path)}",
        "    set -l words (commandline -opc)",
        "    set -e words[1]",
        "    for word in $words",
        '        set -l next (string trim "$place $word")',
        '        contains -- "$next" $known; and set place "$next"',
        "    end",
        '    test "$place" = "$argv[1]"',
        "end",
        "complete -c backstory -f -n '__backstory_at \"\"'",
    ]
    for path, each in table.items():
        at = _quoted(f'__backstory_at "{path}"')
        for word in each:
            name = f"-l {word.text[2:]}" if word.text.startswith("--") else f"-f -a {_quoted(word.text)}"
            values = f" -x -a {_quoted(' '.join(word.values))}" if word.values else " -r" if word.takes_value else ""
            lines.append(f"complete -c backstory -n {at} {name}{values} -d {_quoted(word.help)}")
    return "\n".join(lines) + "\n"


def _described(word: Word) -> str:
    """Return a word as `_describe` reads it: a colon separates it from its description."""
    text = word.text.replace(":", "\\:")
    return f"{text}:{word.help}" if word.help else text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
