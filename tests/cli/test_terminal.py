"""What people meet at a terminal: questions that stay, pipes that close, files that exist, --json in any place."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from box import COMMAND, Box
from shared_box import started
from terminal import in_terminal, on_screen, plain

from backstory.cli import main, output
from backstory.cli.parser import Parser

#: The command with a spinner that comes at once, so that a test need not wait for it to erase a question.
EAGER = "from backstory.cli import main, spinner; spinner.DELAY_S = 0.0; spinner.STEP_S = 0.01; main.main()"
#: Seconds in which that spinner would appear 50 times.
LOOK_S = 0.5
#: Commands that run until they are stopped, are called by other programs, or print a script.
WITHOUT_JSON = {"worker", "hook", "mcp", "completion", "groups chat"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A worker with two sessions, a group and observations to ask about."""
    for box in started(Box(tmp_path_factory.mktemp("shared"))):
        for session in ("one", "two"):
            box.hook("UserPromptSubmit", {"session_id": session, "prompt": f"Mend the cart, part {session}."})
        box.client.post("/api/groups", {"name": "family"})
        for number in range(30):
            box.client.post("/api/memories", {"text": f"Price {number} is in cents.", "project": "shop"})
        yield box


def asked(box: Box, words: Sequence[str], question: str, keys: str) -> tuple[str, str]:
    """What a terminal shows while a command waits for the answer to its question, and after it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-P", "-c", EAGER, *words]
    with subprocess.Popen(command, env=box.env, cwd=box.project, stdin=theirs, stdout=theirs, stderr=theirs) as run:
        os.close(theirs)
        shown, waiting = b"", b""
        while question.encode() not in plain(shown.decode()).encode():
            shown += os.read(ours, 4096)
        while select.select([ours], [], [], LOOK_S)[0] and len(waiting) < 4096:
            waiting += os.read(ours, 4096)
        os.write(ours, keys.encode())
        rest = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while chunk := os.read(ours, 4096):
                rest += chunk
        run.wait(60)
    os.close(ours)
    return shown.decode().partition(question)[2] + waiting.decode(), plain(rest.decode()).replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("words", "question", "keys", "said"),
    [
        (("resume", "--all"), "Enter for none] ", "\n", ""),
        (("resume", "--all", "mend", "cart"), "2-2 or n] ", "n\n", ""),
        (("forget", "1"), "It cannot be undone. [y/N] ", "n\n", ""),
        (("groups", "delete", "family"), "and its memory? [y/N] ", "n\n", "Nothing was deleted."),
        (("export", "--output", "old.jsonl"), "Overwrite old.jsonl? [y/N] ", "n\n", "old.jsonl was not overwritten."),
        (("sessions", "export", "1", "--output", "old.jsonl"), "Overwrite old.jsonl? [y/N] ", "\x04", "overwritten."),
    ],
)
def test_a_question_stays_until_it_is_answered(
    shared: Box, words: tuple[str, ...], question: str, keys: str, said: str
) -> None:
    """The spinner does not erase it."""
    (shared.project / "old.jsonl").write_text("old")
    waiting, rest = asked(shared, words, question, keys)
    assert waiting == ""
    assert said in rest and "Traceback" not in rest
    assert (shared.project / "old.jsonl").read_text() == "old"


def test_nothing_erases_what_is_typed_as_a_text(shared: Box) -> None:
    """`-` reads from the terminal until Ctrl-D."""
    for words in (("remember", "-"), ("edit", "2", "--text", "-")):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-P", "-c", EAGER, *words]
        with subprocess.Popen(command, env=shared.env, cwd=shared.project, stdin=theirs, stdout=theirs, stderr=theirs):
            os.close(theirs)
            os.write(ours, b"Prices are in cents\n")
            shown = b""
            while b"in cents\r\n" not in shown:  # the echo
                shown += os.read(ours, 4096)
            shown = b""  # a spinner from before the text was awaited
            while select.select([ours], [], [], LOOK_S)[0] and len(shown) < 4096:
                shown += os.read(ours, 4096)
            assert len(shown) < 4096, "the spinner runs"
            os.write(ours, b"\x04")
            with contextlib.suppress(OSError):
                while chunk := os.read(ours, 4096):
                    shown += chunk
        os.close(ours)
        assert "#" in plain(shown.decode())


def test_a_dumb_terminal_gets_no_codes(shared: Box) -> None:
    """Neither a spinner nor colours nor a bar."""
    for more in ({"TERM": "dumb"}, {"TERM": "dumb", "NO_COLOR": "1"}):
        for words in (("status",), ("search", "cents"), ("reindex",), ("--help",), ("doctor",)):
            shown = on_screen([sys.executable, "-P", "-c", EAGER, *words], shared.env | more, shared.project)
            assert shown.strip() and "\x1b" not in shown and "⠋" not in shown, words


#: Commands that print much or little, by every way of printing.
PRINTING = [
    *(("context",), ("status",), ("search", "cents"), ("stats",), ("config",), ("--help",), ("version",), ("export",)),
    *(("completion", "bash"), ("show", "1", "--json"), ("sessions", "export", "1"), ("groups",), ("timeline",)),
]


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_reader_that_stops_is_no_error(shared: Box, words: tuple[str, ...]) -> None:
    """As `head` does. The command ends by the signal that ends other programs, and says nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run([COMMAND, *words], stdout=writer, stderr=subprocess.PIPE, env=shared.env, cwd=shared.project)
    os.close(writer)
    assert (run.returncode, run.stderr) == (-signal.SIGPIPE, b"")


def test_closed_and_full_outputs(shared: Box) -> None:
    """No stack trace. What could not be written fails the command."""
    for words in ("context", "status", "export", "show 1 --json", "--help", "remember -", "resume --json", "forget 1"):
        for closed in (">&-", "2>&-", "<&-", ">&- 2>&- <&-", "</dev/null"):
            command = ["sh", "-c", f"exec {COMMAND} {words} {closed}"]
            run = subprocess.run(command, capture_output=True, env=shared.env, cwd=shared.project, input=b"")
            assert b"Traceback" not in run.stderr and b"Exception" not in run.stderr, (words, closed, run.stderr)
            assert run.returncode == (1 if words == "remember -" else 0), (words, closed, run.stderr)
    for words in ("context", "export", "version", "export --output /dev/full"):
        run = subprocess.run(
            ["sh", "-c", f"exec {COMMAND} {words} >/dev/full"], capture_output=True, env=shared.env, cwd=shared.project
        )
        assert run.returncode == 1 and b"No space left on device" in run.stderr and b"Traceback" not in run.stderr


def test_text_that_is_not_utf_8_is_taken(shared: Box) -> None:
    """A pipe may carry anything."""
    run = subprocess.run(
        [COMMAND, "remember", "-", "--json"],
        input=b"caf\xe9 costs 2 euros",
        capture_output=True,
        env=shared.env | {"LANG": "en_US.UTF-8", "PYTHONIOENCODING": "utf-8:strict"},
        cwd=shared.project,
    )
    assert json.loads(run.stdout)["title"].startswith("caf\ufffd costs")


# --output


def test_an_export_is_written_through_a_link(shared: Box) -> None:
    """The link stays, and so does the mode of the file."""
    box = shared
    kept, link = box.root / "kept.jsonl", box.project / "link.jsonl"
    kept.write_text("old")
    kept.chmod(0o640)
    link.symlink_to(kept)
    for words in (("export",), ("sessions", "export", "1")):
        refused = box.cli(*words, "--output", str(link), check=False)
        assert (refused.returncode, refused.stdout) == (1, "") and "--yes" in refused.stderr
        assert kept.read_text() == "old"
    box.cli("export", "--output", str(link), "--yes")
    assert link.is_symlink() and kept.read_text().startswith('{"backstory":"export"')
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    link.unlink()
    link.symlink_to(box.root / "new.md")  # to nothing yet
    box.cli("sessions", "export", "1", "--output", str(link))
    assert link.is_symlink() and (box.root / "new.md").read_text().startswith("# Mend the cart")
    assert stat.S_IMODE((box.root / "new.md").stat().st_mode) == 0o600
    link.unlink()


def test_an_export_to_a_device_or_a_pipe(shared: Box) -> None:
    """/dev/stdout stays what it is, a link to it too, and a pipe gets what is written."""
    box, out = shared, shared.project / "out"
    link, pipe = box.project / "to-stdout", box.project / "pipe"
    link.symlink_to("/dev/stdout")
    os.mkfifo(pipe)
    for name in ("/dev/stdout", str(link), "/proc/self/fd/1", "-"):
        for into in (f"> {out}", f"| cat > {out}"):
            command = ["sh", "-c", f"{COMMAND} sessions export 1 --output {name} {into}"]
            subprocess.run(command, check=True, env=box.env, cwd=box.project)
            text = out.read_text()
            assert text.startswith("# Mend the cart") and "Exported" not in text, (name, into)
    assert link.is_symlink() and Path("/dev/stdout").is_symlink()
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    assert "Exported session S1" in box.cli("sessions", "export", "1", "--output", str(pipe)).stdout
    reader.join(60)
    assert read[0].startswith("# Mend the cart") and pipe.is_fifo()
    assert box.cli("export", "--output", "/dev/null").stdout.startswith("Exported ")
    for path in (link, pipe, out):
        path.unlink()


def test_an_export_without_a_file_is_printed(shared: Box) -> None:
    """Also on a terminal, where no text of it is a code."""
    shared.hook("UserPromptSubmit", {"session_id": "odd", "prompt": "tag \x9b31m and \u202e end"})
    printed = shared.cli("export").stdout
    assert printed.startswith('{"backstory":"export"') and "Exported" not in printed
    shown = in_terminal(shared, "export", columns=500)
    assert "\\u202e" in shown and not {"\x9b", "\u202e"} & set(shown)
    assert json.loads(shared.cli("sessions", "--json", "export", "1").stdout)["turns"]


def test_an_export_that_fails_leaves_the_old_file(shared: Box, tmp_path: Path) -> None:
    """And nothing beside it, however it fails."""
    target = tmp_path / "memory.jsonl"
    target.write_text("old")
    for error in (KeyboardInterrupt(), OSError(28, "No space left on device")):
        with pytest.raises((KeyboardInterrupt, Exception)), output.opened(str(target), True, None) as out:
            out.write(b"half")
            raise error
        assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]
    asked_yes = on_screen(
        [str(COMMAND), "export", "--output", str(target)], shared.env, shared.project, 200, "y\n", "[y/N]"
    )
    assert "Exported " in asked_yes and target.read_text() != "old" and list(tmp_path.iterdir()) == [target]
    refused = shared.cli("export", "--output", str(tmp_path), "--yes", check=False)
    assert refused.returncode == 1 and "Is a directory" in refused.stderr


# --json


def leaves(parser: Parser, *names: str) -> Iterator[tuple[tuple[str, ...], Parser]]:
    """Every command that does something."""
    if (names and "run" in parser._defaults) or names in (("hook",), ("mcp",)):
        yield names, parser
    for name, child in parser.children().items():
        yield from leaves(child, *names, name)


def arguments(parser: Parser) -> list[str]:
    """A value for each argument that must be given."""
    words = []
    for action in parser._actions:
        if not action.option_strings and action.nargs not in ("?", "*") and not parser.children():
            words.append(str(next(iter(action.choices))) if action.choices else "1")
    return words + (["--all"] if parser.prog.split()[-1] in ("retry", "drop") else [])


def test_json_can_be_asked_for_in_any_place() -> None:
    """Before the command, between noun and action, and after it; and every command that prints data has it."""
    top = main.parser()
    found = dict(leaves(top))
    assert {" ".join(names) for names, leaf in found.items() if "--json" not in leaf._option_string_actions} == (
        WITHOUT_JSON
    )
    for names, leaf in found.items():
        if " ".join(names) in WITHOUT_JSON:
            continue
        given = arguments(leaf)
        for place in range(len(names) + 1):
            words = [*names[:place], "--json", *names[place:], *given]
            assert top.parse_args(words).json is True, words
        assert top.parse_args([*names, *given, "--json"]).json is True
        assert top.parse_args([*names, *given]).json is False


def test_an_option_before_an_action_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    """The action would have put its default in its place. One that the action does not have is refused."""
    top = main.parser()
    assert top.parse_args(["sessions", "--limit", "5", "list"]).limit == 5
    assert top.parse_args(["sessions", "--project=shop", "list"]).project == "shop"
    assert top.parse_args(["queue", "--dead", "list"]).dead is True
    assert top.parse_args(["sessions", "--limit", "5"]).limit == 5
    assert top.parse_args(["remember", "--json", "--", "--json"]).text == "--json"
    for words in (["--json", "worker"], ["sessions", "--tag", "x", "show", "3"], ["--json", "groups", "chat", "x"]):
        with pytest.raises(SystemExit) as ended:
            top.parse_args(words)
        assert ended.value.code == 2 and "There is no option `--" in capsys.readouterr().err


def test_json_is_printed_in_any_place(shared: Box) -> None:
    """By the real command."""
    for words in ("groups --json list", "--json groups", "groups --json", "--json groups list", "groups list --json"):
        assert [row["name"] for row in json.loads(shared.cli(*words.split()).stdout)["items"]] == ["main", "family"], (
            words
        )
    for words in (
        *(
            "--json status",
            "--json version",
            "--json context",
            "--json stats",
            "--json queue",
            "--json config get port",
        ),
        *("--json start", "--json open --print", "--json queue drop --all", "--json config set output_days 30"),
        *("--json config unset output_days", "--json install --dry-run", "--json show 2", "sessions --json show 1"),
        *("--json export --output json-export", "--json search cents", "--json sessions export 1", "--json doctor"),
        *("--json import backstory json-export", "--json resume", "--json pin 2", "--json reindex"),
    ):
        run = shared.cli(*words.split(), check=False)
        value: Any = json.loads(run.stdout)
        assert value and run.stderr == "", (words, run.stderr)
