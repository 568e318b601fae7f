"""Adds items to the index and removes them."""

from __future__ import annotations

from backstory.store.db import Tx
from backstory.store.index import match, tokens, vectors
from backstory.store.index.hits import IndexedItem
from backstory.store.packing import pack


def put_words(tx: Tx, item: IndexedItem, title: str, body: str) -> None:
    """Index the new text of an item, and mark it as due for a vector. A hidden item gets none."""
    index(tx, item, title, body)
    vectors.mark(tx, item.kind, item.id)


def index(tx: Tx, item: IndexedItem, title: str, body: str) -> None:
    """Index the words of an item, in place of earlier ones. A hidden item has neither words nor a vector."""
    if item.is_hidden:
        remove_words(tx, item.kind, item.id)
        return
    title, body = tokens.of_text(title), tokens.of_text(body)
    row = tx.one(
        "word_row_put",
        kind=item.kind,
        item_id=item.id,
        session_id=item.session_id,
        at=item.at,
        project=item.project,
        project_key=item.project_key,
    )
    assert row is not None  # noqa: S101 - an upsert always answers
    number, marks = row["words_rowid"], match.marks_of(item)
    if tx.engine == "postgres":
        vector = match.tsvector(title, body, marks, number)
        tx.run("words_put", number=number, title=title, body=body, tokens=vector)
    else:
        put_fts5(tx, number, title, body, " ".join(marks))


def put_fts5(tx: Tx, number: int, title: str, body: str, marks: str) -> None:
    """Index tokens in place of earlier ones, and keep them: FTS5 does not."""
    _remove_fts5(tx, number)
    tx.run("words_put", number=number, title=title, body=body, marks=marks)
    length = title.count(" ") + body.count(" ") + 2
    packed = {"body": pack(body), "marks": match.pack_marks(marks)}
    tx.run("word_text_put", number=number, length=length, title=title, **packed)


def _remove_fts5(tx: Tx, number: int) -> None:
    if known := tx.one("word_text", number=number):
        body, _, marks = known["body"].partition("\n")  # an earlier version stored both in one text
        marks = marks if known["marks"] is None else match.unpack_marks(known["marks"])
        tx.run("words_remove", number=number, title=known["title"], body=body, marks=marks)
        tx.run("word_text_remove", number=number)


def remove_words(tx: Tx, kind: str, item_id: int) -> None:
    if row := tx.one("word_row", kind=kind, item_id=item_id):
        number = row["words_rowid"]
        if tx.engine == "postgres":
            tx.run("words_remove", number=number)
        else:
            _remove_fts5(tx, number)
        tx.run("word_row_remove", kind=kind, item_id=item_id)
    vectors.remove(tx, kind, item_id)
