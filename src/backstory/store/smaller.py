"""Converts rows of earlier versions, so that they take less space. Nothing is lost. `index.reindex` runs the steps."""

from __future__ import annotations

from backstory.store import observations, tool_copies
from backstory.store.db import Row, Tx
from backstory.store.index.match import pack_marks
from backstory.store.packing import MIN_PACKED, pack, unpack

#: Rows that are converted in one transaction, so that other writers do not wait long.
PAGE = 50
#: The step after all others: the file gives its free pages back (`Store.vacuum`).
VACUUM = "vacuum"


def observation_rows(tx: Tx, before: int) -> list[Row]:
    return tx.all("observations_before", before=before, limit=PAGE)


def observation(tx: Tx, row: Row) -> None:
    """Remove what an observation has twice: its JSON, and the long input and response of a tool that its event has."""
    source = {name: row[name] for name in ("tool_input_json", "tool_response_text")}
    if row["sources"] == 1:
        source["tool_response_text"] = tool_copies.shorten_response(source["tool_response_text"])
        source["tool_input_json"] = tool_copies.shorten_input(source["tool_input_json"])
    observed = observations.observed_json(row)
    if observed != row["observed_json"] or any(row[name] != value for name, value in source.items()):
        tx.run("observation_make_smaller", id=row["id"], observed_json=observed, **source)


def event_rows(tx: Tx, before: int) -> list[Row]:
    return tx.all("events_unpacked", before=before, least=MIN_PACKED, limit=PAGE)


def event(tx: Tx, row: Row) -> None:
    tx.run("event_put_payload", id=row["id"], payload=row["payload"])


def word_rows(tx: Tx, before: int) -> list[Row]:
    return tx.all("word_texts_without_marks", before=before, limit=PAGE)


def words(tx: Tx, row: Row) -> None:
    body, _, marks = unpack(row["body"]).partition("\n")
    tx.run("word_text_pack", id=row["id"], body=pack(body), marks=pack_marks(marks))


def is_vacuum_due(tx: Tx) -> bool:
    """Whether every row is converted, and the file still has the space that they took."""
    return [row["step"] for row in tx.all("rebuilds_open")] == [VACUUM]


def vacuumed(tx: Tx) -> None:
    tx.run("rebuild_remove", step=VACUUM)
