"""Reads prompts. `sessions` numbers and adds them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from backstory.model import Prompt
from backstory.store.db import Row, Tx


@dataclass(frozen=True, slots=True)
class PromptPlace:
    """The number of a prompt in its session. The prompt itself may not be known yet."""

    number: int
    is_private: bool
    is_new: bool = True


_COLUMNS = tuple(each.name for each in fields(Prompt))


def from_row(row: Row) -> Prompt:
    values: Row = {name: row[name] for name in _COLUMNS}
    values["is_private"] = bool(row["is_private"])
    return Prompt(**values)


def _one(row: Row | None) -> Prompt | None:
    return from_row(row) if row else None


def by_id(tx: Tx, number: int) -> Prompt | None:
    return _one(tx.one("prompt_by_id", id=number))


def by_number(tx: Tx, session_id: int, number: int) -> Prompt | None:
    return _one(tx.one("prompt_by_number", session_id=session_id, number=number))


def by_prompt_id(tx: Tx, session_id: int, prompt_id: str | None) -> Prompt | None:
    """Return the last prompt with this id of the agent. A fork repeats the ids of its prompts."""
    return _one(tx.one("prompt_by_agents_id", session_id=session_id, prompt_id=prompt_id)) if prompt_id else None


def at(tx: Tx, session_id: int, moment: str) -> Prompt | None:
    """Return the prompt that was being answered at a moment."""
    return _one(tx.one("prompt_at", session_id=session_id, at=moment))


def near(tx: Tx, session_id: int, since: str, until: str) -> list[Prompt]:
    return [from_row(row) for row in tx.all("prompts_near", session_id=session_id, since=since, until=until)]


def of_session(tx: Tx, session_id: int) -> list[Row]:
    """Return the prompts of a session as the API shows them, in their order."""
    return tx.all("prompts_of_session", session_id=session_id)


def listed(tx: Tx, project: str, before: int, limit: int, *, session_id: int = 0) -> list[Row]:
    """Return prompts with a smaller id than `before` as the API shows them, newest first."""
    return tx.all("prompts_list", project=project, session_id=session_id, before=before, limit=limit)


def shown(tx: Tx, number: int) -> Row | None:
    """Return a prompt as the API shows it."""
    row = tx.one("prompt_shown", id=number)
    return (
        row | {"is_private": bool(row["is_private"]), "prompt": None if row["is_private"] else row["prompt"]}
        if row
        else None
    )


def place_of(prompt: Prompt) -> PromptPlace:
    return PromptPlace(prompt.prompt_number, prompt.is_private, is_new=False)
