"""The observer's own conversations, in the files that `claude` keeps them in: few, and only to go on with."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

#: `claude` cuts a folder's name here and adds a digest of its own.
LONGEST = 200


class OwnTranscripts:
    """They lie among the user's, under `roots`, in the folder of the directory that the observer works in."""

    def __init__(self, roots: tuple[Path, ...] = (), cwd: Path = Path()) -> None:
        self._roots, self._cwd = roots, cwd
        self.cleared = 0  #: how often all of them were removed

    def remove(self, *, only: str = "") -> None:
        """Delete all of them, or one; whatever else lies there is not ours."""
        self.cleared += not only
        for file in self._files():
            if only in ("", file.stem):
                with contextlib.suppress(OSError):
                    file.unlink()
                    file.parent.rmdir()  # if it was the last

    def _files(self) -> Iterator[Path]:
        cwd = str(self._cwd.resolve())
        folder = re.sub(r"[^A-Za-z0-9]", "-", cwd)
        # Two directories may have one folder, so a file has to name ours. A quote inside of a prompt is escaped.
        mark = f'"cwd":{json.dumps(cwd, ensure_ascii=False)}'.encode()
        for root in self._roots:
            found = (
                root.glob(f"{folder[:LONGEST]}*/*.jsonl") if len(folder) > LONGEST else (root / folder).glob("*.jsonl")
            )
            for file in found:
                with contextlib.suppress(OSError):
                    text = file.read_bytes()
                    # One that was cut off at its beginning names no directory at all.
                    if mark in text or b'"cwd":' not in text:
                        yield file
