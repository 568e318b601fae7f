"""export, and the imports of an export file and of claude-mem."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import itertools
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from backstory.batches import batches
from backstory.cli import output, show
from backstory.cli.worker import connect
from backstory.client import Client
from backstory.errors import BackstoryError, WorkerAway
from backstory.exchange.lines import Reader
from backstory.paths import expanded, is_observers
from backstory.text import json_escaped

#: Rows in one request of an import, at most.
BATCH_ROWS = 500
#: Characters of text in one request of an import. A batch ends at this limit or at `BATCH_ROWS`.
BATCH_CHARACTERS = 4 << 20
#: How long to wait for the worker, in seconds.
TIMEOUT_S = 600.0
#: table -> what a row of it is
FROM_CLAUDE_MEM = {
    "sdk_sessions": "session",
    "user_prompts": "prompt",
    "observations": "observation",
    "session_summaries": "summary",
}
#: Refused rows that are listed, at most.
LISTED_ROWS = 20


def add(commands: Any) -> None:
    export_ = commands.add_parser("export", help="write all of memory as lines of JSON")
    export_.description = "Write all of memory as lines of JSON. `backstory import backstory` reads them."
    help_text = "the file, compressed if it ends in .gz"
    output.add_option(export_, help_text)
    export_.runs_with_json(export)


def add_source(sources: Any) -> None:
    """Add the sources `backstory` and `claude-mem` to the command `import`."""
    backstory_ = sources.add_parser("backstory", help="a file written by `backstory export`")
    backstory_.add_argument("path", metavar="PATH", help="the file; it may be compressed with gzip")
    backstory_.runs_with_json(import_backstory)
    claude_mem = sources.add_parser("claude-mem", help="the database of claude-mem")
    claude_mem.description = "Import the database of claude-mem. The database is not changed."
    usual = Path("~/.claude-mem/claude-mem.db")
    help_text = f"the database (default: {usual})"
    claude_mem.add_argument("path", metavar="PATH", type=Path, nargs="?", default=usual, help=help_text)
    claude_mem.runs_with_json(import_claude_mem)


def export(options: argparse.Namespace) -> None:
    client = connect(timeout=TIMEOUT_S)
    escape = json_escaped if sys.stdout.isatty() else None  # in a pipe it is the same as in a file
    with output.opened(options.output, options.yes, escape) as out:
        if not options.output.endswith(".gz"):
            counts = _copy(client, out)
        else:
            # Without a name and a time in the header, the same memory gives the same file.
            with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as compressed:
                counts = _copy(client, compressed)  # type: ignore[arg-type]
    rows = sum(counts.values())
    if output.is_file(options.output) and not show.printed_json(options, {"rows": rows, "file": options.output}):
        print(f"Exported {rows} rows to {options.output}.")


def _copy(client: Client, out: IO[bytes]) -> dict[str, int]:
    """Copy the worker's export to `out`, check that it is complete, and count its rows per table."""
    reader = Reader()

    def copied_lines() -> Iterator[bytes]:
        for line in client.lines("/api/export"):
            out.write(line)
            yield line

    started = False
    try:
        for _ in reader.read(copied_lines()):
            started = True
    except BackstoryError as error:
        if isinstance(error, WorkerAway) and not started:
            raise
        hint = "Try again with --output FILE. A program that reads the output must not pause for 30 seconds."
        raise BackstoryError("The worker stopped in the middle, so the export is not complete.", hint) from None
    return reader.counts


def import_backstory(options: argparse.Namespace) -> int:
    path = expanded(options.path)
    # Read the whole file first, so that a truncated file, or one of another program, changes nothing.
    reader, digest = Reader(), hashlib.sha256()
    for _ in reader.read(_lines(path, digest)):
        pass
    total = sum(reader.counts.values())
    added, refused = _send(digest.hexdigest(), Reader().read(_lines(path)), total, options.json)
    # Line 1 is the header.
    return _report(options, added, total, {f"line {index + 2}": reason for index, reason in refused.items()})


def import_claude_mem(options: argparse.Namespace) -> int:
    from backstory.exchange import claude_mem
    from backstory.store.claude_mem import opened

    with opened(options.path) as source:
        keys = _project_keys()
        tables = Counter(table for table, _ in claude_mem.rows(source, keys))
        total = tables.total()
        path = expanded(options.path).resolve()
        import_id = hashlib.sha256(f"claude-mem {path} {os.getpid()}".encode()).hexdigest()
        added, refused = _send(import_id, claude_mem.rows(source, keys), total, options.json)
    found = [show.count(tables[table], noun) for table, noun in FROM_CLAUDE_MEM.items()]
    if not options.json:
        print(f"claude-mem has {', '.join(found)}.")
    return _report(options, added, total, {f"row {index + 1}": reason for index, reason in refused.items()})


def _project_keys() -> dict[str, str]:
    """Return the keys of projects by their names: of those that memory has, and of the directories in which an agent
    has worked. claude-mem has only names. A name that two projects share does not identify one."""
    from backstory import project

    here = [str(Path.cwd()), *_directories()]
    places = {(found.name, found.key) for found in map(project.find, here)}
    known = {(row["name"], row["key"]) for row in connect().get("/api/projects")["items"]}
    stored = {name for name, _ in known}
    known |= {(name, key) for name, key in places if name not in stored}
    names = Counter(name for name, _ in known)
    return {name: key for name, key in known if names[name] == 1}


def _directories() -> Iterator[str]:
    """Yield the directories in which agents have worked, from one transcript of each folder."""
    from backstory.agents import AGENTS
    from backstory.agents.transcripts import Mark
    from backstory.settings import environment

    for agent in AGENTS.values():
        for root in agent.transcripts.roots(Path.home(), environment()):
            for file in {file.parent: file for file in agent.transcripts.find(root) if not is_observers(file)}.values():
                with contextlib.suppress(OSError):
                    yield from (r.cwd for r in itertools.islice(agent.transcripts.read(file, Mark(), True), 1) if r.cwd)


def _report(options: argparse.Namespace, added: int, total: int, refused: dict[str, str]) -> int:
    """Print the result. The exit code is 1 if rows were refused."""
    if show.printed_json(options, {"rows": total, "added": added, "refused": refused}):
        return 1 if refused else 0
    print(f"{added:,} of {show.count(total, 'row')} {'was' if added == 1 else 'were'} new.")
    if not refused:
        return 0
    print(f"{show.count(len(refused), 'row was', 'rows were')} refused:", file=sys.stderr)
    for place, reason in list(refused.items())[:LISTED_ROWS]:
        print(f"  {place}: {reason}", file=sys.stderr)
    if len(refused) > LISTED_ROWS:
        print(f"  and {len(refused) - LISTED_ROWS} more", file=sys.stderr)
    return 1


def _send(
    import_id: str, rows: Iterable[tuple[str, dict[str, Any]]], total: int, is_quiet: bool
) -> tuple[int, dict[int, str]]:
    """Send rows to the worker in batches. Return how many were new, and index -> reason of those that were refused."""
    client = connect(timeout=TIMEOUT_S)
    done = added = 0
    refused: dict[int, str] = {}
    progress = show.ProgressBar(quiet=is_quiet)
    for batch in batches(rows, _characters, BATCH_ROWS, BATCH_CHARACTERS):
        body = {"import_id": import_id, "rows": [{"table": table, "row": row} for table, row in batch]}
        answer = client.post("/api/import/rows", body)
        added += answer["added"]
        refused |= {done + refusal["row"]: refusal["reason"] for refusal in answer["refused"]}
        done += len(batch)
        progress.show(done, total, f"{done:,} of {total:,} rows")
    progress.end()
    client.post("/api/import/rows", {"import_id": import_id, "done": True})
    return added, refused


def _characters(row: tuple[str, dict[str, Any]]) -> int:
    return sum(len(value) for value in row[1].values() if isinstance(value, str))


def _lines(path: Path, digest: Any = None) -> Iterator[bytes]:
    """The lines of a file, which may be compressed with gzip."""
    try:
        with path.open("rb") as raw:
            compressed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            source: IO[bytes] = gzip.GzipFile(fileobj=raw) if compressed else raw  # type: ignore[assignment]
            for line in source:
                if digest is not None:
                    digest.update(line)
                yield line
    except EOFError:
        return  # a truncated gzip file: the reader reports that the end is missing
    except OSError as error:
        raise BackstoryError(f"{path} could not be read: {error.strerror or 'it is damaged'}.") from None
