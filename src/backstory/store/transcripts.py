"""How far each transcript was read, so that the next reader continues there."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from backstory import ids
from backstory.store.db import Tx


@dataclass(frozen=True, slots=True)
class ReadTranscript:
    """A transcript file as it was when it was last read, and where reading ended."""

    reader: str  #: "import", "reconcile" or "keep"; they keep separate records
    path: str
    inode: int
    size: int
    changed_ns: int
    mark_offset: int
    mark_prompt: str = ""  #: the id of the prompt that was open at the offset; of "keep", a digest of what is before it


def find(tx: Tx, reader: str, path: str) -> ReadTranscript | None:
    row = tx.one("transcript_read", reader=reader, path=path)
    return ReadTranscript(**{each.name: row[each.name] for each in fields(ReadTranscript)}) if row else None


def put(tx: Tx, read: ReadTranscript) -> None:
    tx.run("transcript_put", **asdict(read), at=ids.now())
