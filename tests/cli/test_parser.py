"""The command line itself: what it says to a wrong word, its help, its colours, and what a shell completes."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, until
from terminal import in_terminal

from backstory.cli import completion, main, spinner
from backstory.cli.parser import Parser


def every(parser: Parser, name: str = "backstory") -> Iterator[tuple[str, Parser]]:
    yield name, parser
    for word, child in parser.children().items():
        yield from every(child, f"{name} {word}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("serach x", "no command `serach`. Did you mean `search`?"),
        ("find x", "no command `find`. Did you mean `search`?"),
        ("quux", "no command `quux`."),
        ("search --projct shop cart", "no option `--projct`. Did you mean `--project`?"),
        ("search --projct=shop cart", "no option `--projct`. Did you mean `--project`?"),
        ("config lst", "no action `lst` of `backstory config`. Did you mean `list`?"),
        ("import claude-mme x", "no source `claude-mme` of `backstory import`. Did you mean `claude-mem`?"),
        ("remember x --type bugfx", "or decision, not `bugfx`. Did you mean `bugfix`?"),
        ("show", "ID is missing."),
        ("supersede 1 2 3", "`3` is one word too many."),
        ("search x --limit", "--limit needs a value."),
        ("search x --limit ten", "--limit must be a whole number, not `ten`."),
        ("queue retry x", "ID must be a whole number, not `x`."),
    ],
)
def test_a_wrong_word_is_named_with_the_one_that_was_meant(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, and the second line says where to read on."""
    with pytest.raises(SystemExit) as ended:
        main.parser(words.split(maxsplit=1)[0]).parse_args(words.split())
    first, second = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert said in first
    assert re.fullmatch(r"Run `backstory[a-z -]* --help` to see what it takes\.", second)


def test_every_help_has_examples_that_parse_and_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """An example is a command of this program. `--help` lists every command once."""
    monkeypatch.setenv("COLUMNS", "80")
    top = main.parser()
    for name, parser in every(top):
        text = parser.format_help()
        assert max(map(len, text.splitlines())) <= 80, name
        examples = re.findall(r"^  .*?\bbackstory ([^#<>|)\n]*)", text.partition("Examples:\n")[2], re.MULTILINE)
        assert examples, name
        for example in examples:
            words = re.findall(r"\"[^\"]*\"|'[^']*'|\S+", example)
            if words[0] not in ("COMMAND", "hook", "mcp", "version"):
                top.parse_args(words)
    assert sorted(word for words in main.HEADINGS.values() for word in words) == sorted(top.children())


def test_colours_are_for_terminals(box: Box) -> None:
    """Not for pipes, and not for people who want none."""
    assert "\x1b[1musage" in in_terminal(box, "--help", colours=True)
    assert "\x1b" not in box.cli("--help").stdout
    box.settings["NO_COLOR"] = "1"
    assert "\x1b[1m" not in in_terminal(box, "--help", colours=True)


def test_help_is_a_word_too(box: Box) -> None:
    """As other programs have it."""
    assert box.cli("help", "search").stdout == box.cli("search", "--help").stdout


#: A command line, and what its last word can become.
COMPLETED: list[tuple[list[str], list[str]]] = [
    (["se"], ["search", "sessions"]),
    (["sessions", "sh"], ["show"]),
    (["sessions", "show", "--tu"], ["--turns"]),
    (["search", "--kind", "s"], ["summaries", "sessions"]),
    (["config", "set", "prov"], ["provider"]),
    (["import", "claude-m"], ["claude-mem"]),
    (["completion", "b"], ["bash"]),
]
#: shell -> a program that reads the script $1 and prints the completions of the other words, each on a line. That of
#: zsh has its own `_describe` and `compadd`, because the real ones need a terminal.
PROGRAMS = {
    "bash": '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _backstory; printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": 'compdef() { : }; _files() { : }; compadd() { shift; print -l -- "$@" }; _describe() { print -l -- $reply }'
    '\n. "$1"; shift; words=("$@"); CURRENT=$#; _backstory',
    "fish": 'source $argv[1]; complete -C"$argv[2..]"',
}


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_shells_complete(tmp_path: Path, shell: str) -> None:
    """The real shell reads what `backstory completion` prints."""
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here")
    script = tmp_path / "script"
    table = dict(completion.places(main.parser()))
    script.write_text(getattr(completion, f"_{shell}")(table))
    for line, expected in COMPLETED:
        name = [shell] if shell != "fish" else []  # the others count it as $0
        command = [shell, "-c", PROGRAMS[shell], *name, str(script), "backstory", *line]
        run = subprocess.run(command, capture_output=True, text=True, check=True, env={"HOME": str(tmp_path)})
        found = [re.split("[:\t]", word)[0] for word in run.stdout.splitlines() if word.startswith(line[-1])]
        assert sorted(found) == sorted(expected), (line, run.stdout)
        assert run.stderr == ""


def test_a_spinner_is_gone_before_anything_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes while nothing is printed, but not after a question, whose line must stay."""
    shown = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", shown)
    monkeypatch.setattr(spinner, "DELAY_S", 0.0)
    one = spinner.Spinner("backstory search")
    until(lambda: "backstory search … 0 s" in shown.getvalue())
    one.clear(is_line_start=False)
    length = len(shown.getvalue())
    assert shown.getvalue().endswith("\r\x1b[K")
    one.end()
    one._thread.join(60)
    assert len(shown.getvalue()) == length
