"""The transcripts that `claude` writes of the observer's own conversations. They are kept only to resume them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

#: `claude` cuts longer folder names to this many characters and adds a digest.
MAX_FOLDER_CHARS = 200


class OwnTranscripts:
    """The transcripts of sessions in `cwd`, the observer's directory. They lie under `roots`, beside the user's own."""

    def __init__(self, roots: tuple[Path, ...] = (), cwd: Path = Path()) -> None:
        self._roots, self._cwd = roots, cwd
        self.cleared = 0  #: how many times all were removed

    def remove(self, *, only: str = "") -> None:
        """Delete all of them, or the one with this session id. Other files there are not ours."""
        self.cleared += not only
        for file in self._files():
            if only in ("", file.stem):
                with contextlib.suppress(OSError):
                    file.unlink()
                    file.parent.rmdir()  # fails if there are other files

    def _files(self) -> Iterator[Path]:
        cwd = str(self._cwd.resolve())
        folder = re.sub(r"[^A-Za-z0-9]", "-", cwd)
        # Several directories may share a folder, so the file must name ours. A prompt cannot: its quotes are escaped.
        mark = f'"cwd":{json.dumps(cwd, ensure_ascii=False)}'.encode()
        for root in self._roots:
            is_cut = len(folder) > MAX_FOLDER_CHARS
            for file in root.glob(f"{folder[:MAX_FOLDER_CHARS]}{'*' if is_cut else ''}/*.jsonl"):
                with contextlib.suppress(OSError):
                    text = file.read_bytes()
                    # A file whose beginning was cut off names no directory at all.
                    if mark in text or b'"cwd":' not in text:
                        yield file
