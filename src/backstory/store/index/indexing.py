"""Adds items to the index and removes them."""

from __future__ import annotations

from backstory.store.db import Tx
from backstory.store.index import match, tokens, vectors
from backstory.store.index.hits import IndexedItem


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
    vector = match.tsvector(title, body, marks, number) if tx.engine == "postgres" else ""
    tx.run("words_put", number=number, title=title, body=body, marks=" ".join(marks), tokens=vector)


def remove_words(tx: Tx, kind: str, item_id: int) -> None:
    if row := tx.one("word_row", kind=kind, item_id=item_id):
        tx.run("words_remove", number=row["words_rowid"])
        tx.run("word_row_remove", kind=kind, item_id=item_id)
    vectors.remove(tx, kind, item_id)
