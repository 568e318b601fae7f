"""export and import: everything into a file, and out of one."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from backstory import settings
from backstory.cli import show
from backstory.cli.worker import connect
from backstory.client import Client
from backstory.errors import BackstoryError, WorkerAway
from backstory.exchange.lines import Reader

#: One piece of an import: so many rows, or so many bytes, whichever comes first.
ROWS = 500
BYTES = 4 << 20
PATIENCE_S = 600.0
TOLD = 20  #: refused rows that are named


def add(commands: Any) -> None:
    export_ = commands.add_parser("export", help="write everything to a file")
    export_.description = "Write everything that is remembered to a file, as lines of JSON that lose nothing."
    export_.add_argument("--output", required=True, metavar="FILE", help="- for standard output; .gz is compressed")
    export_.set_defaults(run=export)


def add_source(sources: Any) -> None:
    """What `import` can read."""
    backstory_ = sources.add_parser("backstory", help="a file that `backstory export` wrote")
    backstory_.add_argument("path", metavar="PATH", help="the file; .gz or not")
    backstory_.set_defaults(run=import_backstory)
    claude_mem = sources.add_parser("claude-mem", help="what claude-mem remembers")
    claude_mem.description = "Read the database of claude-mem, and change nothing in it."
    usual = Path("~/.claude-mem/claude-mem.db")
    claude_mem.add_argument("path", metavar="PATH", type=Path, nargs="?", default=usual, help=f"the file ({usual})")
    claude_mem.set_defaults(run=import_claude_mem)


def export(options: argparse.Namespace) -> int:
    connect()
    client = Client(settings.load().paths.socket, PATIENCE_S)
    if options.output == "-":
        _copy(client, sys.stdout.buffer)
        sys.stdout.flush()
        return 0
    target = Path(options.output).expanduser()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with contextlib.ExitStack() as files:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            out: IO[bytes] = files.enter_context(os.fdopen(handle, "wb"))
            if target.suffix == ".gz":
                # No name and no time inside: the same memory gives the same file.
                out = files.enter_context(gzip.GzipFile("", "wb", fileobj=out, mtime=0))  # type: ignore[arg-type]
            counts = _copy(client, out)
        temporary.replace(target)
    except OSError as error:
        raise BackstoryError(f"{target} could not be written: {error.strerror}.") from None
    finally:
        temporary.unlink(missing_ok=True)
    print(f"{sum(counts.values())} rows are in {target}.")
    return 0


def _copy(client: Client, out: IO[bytes]) -> dict[str, int]:
    """The worker's lines, checked to be whole."""
    reader = Reader()

    def passed_on() -> Iterator[bytes]:
        for line in client.lines("/api/export"):
            out.write(line)
            yield line

    begun = False
    try:
        for _ in reader.read(passed_on()):
            begun = True
    except BackstoryError as error:
        if isinstance(error, WorkerAway) and not begun:
            raise
        hint = "Try it again, with --output FILE: what reads it must not pause for more than 30 seconds."
        raise BackstoryError("The worker broke off, so the export is not whole.", hint) from None
    return reader.counts


def import_backstory(options: argparse.Namespace) -> int:
    path = Path(options.path).expanduser()
    # Read to its end first: a file that is cut or foreign changes nothing.
    reader, digest = Reader(), hashlib.sha256()
    for _ in reader.read(_lines(path, digest)):
        pass
    total = sum(reader.counts.values())
    connect()
    added, refused = _send(digest.hexdigest(), Reader().read(_lines(path)), total)
    # The heading is line 1.
    return _tell(added, total, {f"line {at + 2}": reason for at, reason in refused.items()})


def import_claude_mem(options: argparse.Namespace) -> int:
    from backstory.exchange import claude_mem
    from backstory.store.claude_mem import opened

    with opened(options.path) as source:
        known = connect().get("/api/projects")["items"]
        # Of two projects with one name nobody can say which is meant.
        names = Counter(row["name"] for row in known)
        keys = {row["name"]: row["key"] for row in known if names[row["name"]] == 1}
        total = sum(1 for _ in claude_mem.rows(source, keys))
        mark = hashlib.sha256(f"claude-mem {options.path.expanduser().resolve()} {os.getpid()}".encode()).hexdigest()
        added, refused = _send(mark, claude_mem.rows(source, keys), total)
    return _tell(added, total, {f"row {at + 1}": reason for at, reason in refused.items()})


def _tell(added: int, total: int, refused: dict[str, str]) -> int:
    """What became of the rows; exit code 1 if some were refused."""
    print(f"{added} of {total} rows were new.")
    if not refused:
        return 0
    print(f"{len(refused)} rows were refused:", file=sys.stderr)
    for where, reason in list(refused.items())[:TOLD]:
        print(f"  {where}: {reason}", file=sys.stderr)
    if len(refused) > TOLD:
        print(f"  and {len(refused) - TOLD} more", file=sys.stderr)
    return 1


def _send(import_id: str, found: Iterable[tuple[str, dict[str, Any]]], total: int) -> tuple[int, dict[int, str]]:
    """Rows to the worker, a few at a time; how many were new, and which were refused, counted from 0, and why."""
    client = Client(settings.load().paths.socket, PATIENCE_S)
    done = added = 0
    refused: dict[int, str] = {}
    for rows in _pieces(found):
        told = client.post("/api/import/rows", {"import_id": import_id, "rows": rows})
        added += told["added"]
        refused |= {done + one["row"]: one["reason"] for one in told["refused"]}
        done += len(rows)
        _progress(done, total)
    client.post("/api/import/rows", {"import_id": import_id, "done": True})
    return added, refused


def _pieces(found: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size = 0
    for table, row in found:
        weight = sum(len(value) for value in row.values() if isinstance(value, str))
        if rows and (len(rows) >= ROWS or size + weight > BYTES):
            yield rows
            rows, size = [], 0
        rows.append({"table": table, "row": row})
        size += weight
    if rows:
        yield rows


def _lines(path: Path, digest: Any = None) -> Iterator[bytes]:
    """A file's lines, unpacked if they are packed."""
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            source: IO[bytes] = gzip.GzipFile(fileobj=plain) if packed else plain  # type: ignore[assignment]
            for line in source:
                if digest is not None:
                    digest.update(line)
                yield line
    except EOFError:
        return  # packed and cut: the end is missing, which the reader tells
    except OSError as error:
        raise BackstoryError(f"{path} could not be read: {error.strerror or 'it is damaged'}.") from None


def _progress(done: int, total: int) -> None:
    """A bar, where somebody looks."""
    if sys.stderr.isatty():
        share = done / max(total, 1)
        end = "\n" if done >= total else ""
        print(f"\r[{'#' * int(share * 40):<40}] {done:,} of {total:,} rows", end=end, file=show.terminal(), flush=True)
