"""Bench: recorded transcripts, read plainly and by backstory. Every text must be in the turns, once and in order.

    .venv/bin/python bench/reader.py FOLDER

FOLDER has transcripts of Claude Code (`*.jsonl`, `*.jsonl.gz`). Each is imported into a database of its own.
Exits with 1 if a text is missing, doubled or out of order. The table says what is left out on purpose.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import table

from backstory import gate
from backstory.agents import AGENTS
from backstory.agents.transcripts import Mark
from backstory.capture.backfill import Backfill, report_batches
from backstory.capture.intake import Intake
from backstory.model import ContentId, Turn
from backstory.settings import Settings
from backstory.store import open_store, sessions, turns
from backstory.store.db import Store, Tx

#: What the client writes in the user's name, by how it begins.
MACHINES = re.compile(
    r"<(command-name|local-command-\w+|bash-\w+|task-notification|user-memory-input|ide_\w+|teammate-message)"
    r"|(\[Request interrupted by user)|(Caveat: The messages below)"
)
COMMAND = re.compile(r"<command-message>.*?</command-message>\s*<command-name>(.*?)</command-name>", re.DOTALL)
ARGUMENTS = re.compile(r"<command-args>(.*)</command-args>", re.DOTALL)
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


@dataclass
class Plain:
    """A transcript, read line by line without the reader."""

    said: list[tuple[str, str]] = field(default_factory=list)  #: role and words, in order
    left_out: Counter[str] = field(default_factory=Counter)
    damaged: int = 0
    lines: int = 0


def plain(path: Path) -> Plain:
    """Read every text block of a person or the assistant."""
    read, seen = Plain(), set[str]()
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as source:
        for line in source:
            read.lines += 1
            try:
                entry = json.loads(line)
            except ValueError:
                read.damaged += 1
                continue
            if not isinstance(entry, dict) or entry.get("type") not in ("user", "assistant"):
                continue
            if (reason := left_out(entry)) or entry.get("uuid") in seen:
                read.left_out[reason or "repeated line"] += 1
                continue
            seen.add(str(entry.get("uuid")))
            read.said += texts(entry, read.left_out)
    return read


def left_out(entry: dict[str, Any]) -> str:
    flags = {"isSidechain": "subagent", "isMeta": "meta", "isCompactSummary": "summary of a compaction"}
    flags |= {"isApiErrorMessage": "error of the API", "isVisibleInTranscriptOnly": "shown only"}
    return next((words for name, words in flags.items() if entry.get(name)), "")


def texts(entry: dict[str, Any], aside: Counter[str]) -> Iterator[tuple[str, str]]:
    content = entry["message"].get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    for block in blocks:
        if block.get("type") != "text":
            continue
        words = REMINDER.sub("", block["text"]).strip()
        if entry["type"] == "user" and (command := COMMAND.match(words)):
            given = ARGUMENTS.search(words)
            words = f"{command[1]} {given[1] if given else ''}"
        elif entry["type"] == "user" and (machine := MACHINES.match(words)):
            aside[f"{(machine[1] or machine[2] or machine[3])[:30]}"] += 1
            continue
        if words := gate.text(words).strip():
            yield entry["type"], words


async def turns_of(path: Path, store: Store, backfill: Backfill) -> list[tuple[str, str]]:
    """Import a transcript, and return its turns."""
    names: dict[str, None] = {}
    for batch in report_batches(AGENTS["claude-code"].transcripts.read(path, Mark(), True)):
        names |= {report.content_id: None for report in batch}
        await backfill.take(batch)
    return [(turn.role, turn.text or "") for name in names for turn in stored(store, ContentId(name))]


def stored(store: Store, name: ContentId) -> list[Turn]:
    def read(tx: Tx) -> list[Turn]:
        session = sessions.by_content_id(tx, "claude-code", name)
        return turns.of_session(tx, session.id) if session else []

    return store.read(read)


def stream(said: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The words one by one, each with who said it. Blocks of a message are one turn, so their borders do not count."""
    return [(role, word) for role, text in said for word in text.split()]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    options.add_argument("folder", type=Path)
    folder: Path = options.parse_args().folder
    files = sorted(file for file in folder.rglob("*.jsonl*") if file.name.endswith((".jsonl", ".jsonl.gz")))
    counts: Counter[str] = Counter()
    aside: Counter[str] = Counter()
    differ: list[str] = []
    for file in files:
        with tempfile.TemporaryDirectory() as data:  # one for each: a fork's copies are not stored twice
            settings = Settings(data_dir=Path(data))
            store = open_store(settings)
            intake = Intake(settings, store, lambda *_: None, lambda _: None, {}, b"")
            made = asyncio.run(turns_of(file, store, Backfill(intake, b"")))
            store.close()
        read = plain(file)
        counts.update(transcripts=1, lines=read.lines, damaged=read.damaged, texts=len(read.said), turns=len(made))
        aside += read.left_out
        wanted, got = stream(read.said), stream(made)
        if wanted != got:
            at = next(
                (i for i, pair in enumerate(zip(wanted, got, strict=False)) if pair[0] != pair[1]),
                min(len(wanted), len(got)),
            )
            near = " ".join(word for _, word in wanted[max(at - 5, 0) : at + 10])
            have = " ".join(word for _, word in got[max(at - 5, 0) : at + 10])
            differ.append(f"{file.name}: {len(wanted)} words, {len(got)} in turns; wanted …{near}…, found …{have}…")
    print(table(["", ""], [[name, f"{count:,}"] for name, count in counts.items()]))
    print(table(["left out", ""], [[name, f"{count:,}"] for name, count in aside.most_common()]))
    print("\n".join(differ) if differ else "Every text is in the turns once and in order.")
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
