"""The ledger: calls of models and their cost, by day, project, provider and model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from backstory import ids
from backstory.model import ModelCall
from backstory.store.db import Row, Tx


def add(tx: Tx, session_id: int, calls: Iterable[ModelCall]) -> None:
    """Add calls, in the transaction that stores their results."""
    for call in calls:
        tx.run("ledger_add", day=ids.today(), session_id=session_id, **asdict(call))


def add_unnamed(tx: Tx, calls: Iterable[ModelCall]) -> None:
    """Add calls that belong to no project."""
    for call in calls:
        tx.run("ledger_add_unnamed", day=ids.today(), **asdict(call))


def spent(tx: Tx, day: str) -> tuple[int, int]:
    """Return the tokens and the millionths of a dollar of a day."""
    row = tx.one("ledger_spent", day=day)
    return (int(row["tokens"]), int(row["cost_micros"])) if row else (0, 0)


def by_day(tx: Tx, project: str, days: int) -> list[Row]:
    """Return the latest days with calls, each by project, provider and model."""
    return tx.all("ledger_list", project=project, days=days)


def total(tx: Tx, project: str) -> Row:
    """Return the totals of all days."""
    return tx.one("ledger_total", project=project) or {}


def forget_project(tx: Tx, key: str) -> None:
    """Remove the name of a project from its costs. The costs stay."""
    tx.run("ledger_forget_into", project_key=key)
    tx.run("ledger_forget", project_key=key)
