"""Following transcripts: each line once, whatever happens to the file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from transcripts import Script

from backstory.capture.intake import Intake
from backstory.capture.kept import KeptTranscripts
from backstory.errors import NotFound
from backstory.settings import Settings
from backstory.store import kept, open_store
from backstory.store.db import Store, Tx

MODE = {"type": "mode", "mode": "normal"}


@dataclass
class Desk:
    """A file that grows, and what follows it."""

    store: Store
    kept: KeptTranscripts
    root: Path
    script: Script = field(default_factory=Script)

    @property
    def file(self) -> Path:
        return self.root / "-shop" / f"{self.script.session}.jsonl"

    def keep(self) -> dict[str, int]:
        return dict(asyncio.run(self.kept.keep("claude-code", self.file))[1])

    def grow(self) -> None:
        asyncio.run(self.kept.grow("claude-code", self.file))

    def entries(self) -> list[Any]:
        def read(tx: Tx) -> list[str]:
            (transcript,) = kept.of_session(tx, 1)
            texts, last = kept.page(tx, transcript.id, 0)
            while last is not None:
                more, last = kept.page(tx, transcript.id, last)
                texts += more
            return texts

        return [json.loads(text) for text in self.store.read(read)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    settings = Settings(data_dir=tmp_path / "data")
    settings.paths.prepare()
    store = open_store(settings)
    roots = {"claude-code": (tmp_path / "projects",)}
    intake = Intake(settings, store, lambda *_: None, lambda _: None, roots, b"k" * 32)
    made = Desk(store, KeptTranscripts(store, intake, roots, b"k" * 32, asyncio.Event()), tmp_path / "projects")
    made.script.prompt("Ask.")
    made.script.lines.append(MODE)
    made.script.says("Answer.")
    made.script.write(made.file.parent)
    yield made
    store.close()


def test_what_is_added_is_kept_once(desk: Desk) -> None:
    """At every byte at which a look may come. Lines without an id may say the same again."""
    assert desk.keep() == {"added": 3}
    assert desk.keep() == {}
    for _ in range(3):
        before = desk.file.read_bytes()
        desk.script.prompt("More.")
        desk.script.lines.append(MODE)
        desk.script.says("Yes.")
        raw = desk.script.raw()
        for cut in range(len(before), len(raw), 101):
            with desk.file.open("r+b") as file:
                file.write(raw[:cut])
            desk.grow()
        with desk.file.open("r+b") as file:
            file.write(raw)
        desk.grow()
        assert desk.entries() == desk.script.lines


def test_a_file_that_was_written_anew_is_read_from_its_beginning(desk: Desk) -> None:
    """Even if it has the same inode, and is longer by now. Nothing is doubled, and nothing is missed."""
    desk.keep()
    inode = desk.file.stat().st_ino
    known = desk.script.lines[:]
    desk.script.prompt("After it was restored.")
    desk.script.lines.append(MODE)
    desk.script.says("Yes. " * 100)
    # Without spaces and in another order it is shorter, as a restored file may be.
    short = [{key: line[key] for key in sorted(line) if key != "gitBranch"} for line in known]
    raw = b"".join(
        json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in (*short, *desk.script.lines[3:])
    )
    with desk.file.open("r+b") as file:
        file.truncate()
        file.write(raw)
    assert desk.file.stat().st_ino == inode
    desk.grow()
    assert desk.entries() == desk.script.lines


def test_damaged_lines_are_counted_and_skipped(desk: Desk) -> None:
    with desk.file.open("ab") as file:
        file.write(b'{"type":"user","mess\n\xff\xfe\n[]\n{"type":"mode","mode":"normal"}\n{"type":"us')
    assert desk.keep() == {"added": 4, "damaged": 3}
    assert desk.entries() == [*desk.script.lines, MODE]


def test_only_transcripts_in_the_agents_folder_are_kept(desk: Desk, tmp_path: Path) -> None:
    """Links that lead out of it are not followed, and the observer's own files are not kept."""
    outside = tmp_path / "x.jsonl"
    outside.write_bytes(desk.file.read_bytes())
    link = desk.file.with_name("link.jsonl")
    link.symlink_to(outside)
    own = desk.script.write(desk.root / "-home--backstory-observer")
    for path in (outside, link, own, desk.file.parent, desk.root / "none.jsonl"):
        with pytest.raises(NotFound):
            asyncio.run(desk.kept.keep("claude-code", path))
