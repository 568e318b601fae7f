"""Runs the real `claude` in a terminal, as a person does: types, presses keys, reads the screen."""

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from box import COMMAND, Box, until
from claude import Claude, binary, kill

ENTER = "\r"
ESCAPE = "\x1b"
#: Rows and columns, so that no word is wrapped.
SIZE = (50, 160)
#: Seconds for whatever the client does next. The machine may be busy.
PATIENCE = 120
#: Seconds after which a key is pressed again.
RETRY = 10
_ANSI = re.compile(r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|[\[(][?>=0-9;]*[a-zA-Z])|\s")


class Terminal:
    """A client in a terminal."""

    def __init__(self, client: Claude, *options: str, program: Sequence[str] = ()) -> None:
        self.shown = ""  #: everything that was ever shown, without colours and blanks
        self._changed = threading.Condition()
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        self.process: subprocess.Popen[str] = subprocess.Popen(
            [*program] or [str(binary()), f"--tools={client.tools}", *options],
            cwd=client.cwd,
            env=client.environment() | {"TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            text=True,
            start_new_session=True,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        raw = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while chunk := os.read(self._ours, 65536):
                raw += chunk
                with self._changed:
                    self.shown = _ANSI.sub("", raw.decode(errors="replace"))
                    self._changed.notify_all()

    def wait(self, words: str, after: int = 0) -> None:
        """Wait until words are shown. Blanks do not count: the client moves the cursor instead of writing them."""
        wanted = _ANSI.sub("", words)
        with self._changed:
            is_shown = self._changed.wait_for(lambda: wanted in self.shown[after:], PATIENCE)
        assert is_shown, f"no {words!r} after {self.shown[after:][-2000:]}"

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def press_until(self, key: str, happened: Callable[[], Any]) -> None:
        """Press a key until something happens. A question is shown a moment before it takes keys."""
        for _ in range(PATIENCE // RETRY):
            self.press(key)
            with contextlib.suppress(AssertionError):
                until(happened, seconds=RETRY)
                return
        raise AssertionError(f"nothing happened after {self.shown[-2000:]}")

    def type(self, words: str) -> None:
        """Type a line and press Enter once it is shown; sooner it would count as pasted text."""
        before = len(self.shown)
        self.press(words)
        self.wait(words.rsplit(maxsplit=1)[-1], before)
        self.press(ENTER)

    def close(self) -> None:
        if self.process.poll() is None:
            kill(self.process)
        self._reader.join(PATIENCE)
        os.close(self._ours)


@contextlib.contextmanager
def terminal(client: Claude, *options: str, program: Sequence[str] = ()) -> Iterator[Terminal]:
    """A client that is ready for a prompt, or another program. It never outlives the block."""
    _introduce(client)
    shown = Terminal(client, *options, program=program)
    try:
        if not program:
            shown.wait("❯")
        yield shown
    finally:
        shown.close()


def _introduce(client: Claude) -> None:
    """Answer beforehand what the client asks a new user."""
    file = client.home / ".claude.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    trusted = {str(client.cwd): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
    known |= {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
        "projects": known.get("projects", {}) | trusted,
    }
    file.write_text(json.dumps(known))


def in_terminal(box: Box, *words: str, columns: int = 80, keys: str = "", colours: bool = False) -> str:
    """What a terminal of so many columns shows of `backstory WORDS`. `keys` are typed at once."""
    shown = on_screen([str(COMMAND), *words], box.env, box.project, columns, keys)
    return shown if colours else plain(shown)


def on_screen(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, columns: int = 80, keys: str = "", question: str = ""
) -> str:
    """What a program writes to a terminal. `keys` are typed once it asks the question, or at once without one."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(command, env=env, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs) as run:
        os.close(theirs)
        shown, left = b"", keys.encode()
        with contextlib.suppress(OSError):  # the other end is closed
            while True:
                if left and question.encode() in shown:
                    left = left[os.write(ours, left) :]
                if not (chunk := os.read(ours, 4096)):
                    break
                shown += chunk
        run.wait(PATIENCE)
    os.close(ours)
    return shown.decode()


def plain(shown: str) -> str:
    """The same without colour codes and the spinner."""
    return re.sub(r"\r[^\r\n]*\x1b\[K|\x1b\[\d*m", "", shown)
