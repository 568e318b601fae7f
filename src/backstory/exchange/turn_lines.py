"""Imports conversations of other programs: files with one JSON object per turn."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from backstory import gate, ids
from backstory.model import ContentId, Report, Session
from backstory.project import Project
from backstory.store import sessions, turns
from backstory.store.db import Tx
from backstory.store.index import chunks

#: The agent of imported conversations.
NAME = "conversations"
_ASSISTANTS = frozenset({"assistant", "ai", "bot", "model", "agent"})
_USERS = frozenset({"user", "human"})
#: Roles whose messages are not part of the conversation.
_NOT_SAID = frozenset({"system", "developer", "tool", "function"})
_TIME_FORMATS = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d", "%d %B, %Y", "%d %B %Y")


@dataclass(frozen=True, slots=True)
class Said:
    """A turn of a conversation. The constructor removes private text and secrets."""

    project: str
    session: str
    number: int
    role: str
    text: str
    at: str
    speaker: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "session", gate.identifier(self.session))
        for name in ("project", "role", "text", "speaker"):
            value = getattr(self, name)
            object.__setattr__(self, name, value and gate.text(value))


def read(lines: Iterable[bytes], bad: Counter[str]) -> Iterator[Said]:
    """Yield the turns of a file. Invalid lines are next_numbers in `bad`. Messages of other roles are skipped."""
    next_numbers: Counter[str] = Counter()
    for line in lines:
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        said = _said(value, next_numbers) if isinstance(value, dict) else None
        if said is None:
            bad["lines"] += 1
        elif said.role not in _NOT_SAID:
            yield said


def _said(value: dict[str, Any], next_numbers: Counter[str]) -> Said | None:
    session, text, number = value.get("session"), value.get("text"), value.get("turn")
    role, project = value.get("role") or "user", value.get("project") or ""
    if not isinstance(session, str) or not isinstance(text, str) or not 0 < len(session) <= 512:
        return None
    if not isinstance(role, str) or not isinstance(project, str):
        return None
    if number is None:
        number = next_numbers[session]
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**31:
        return None
    next_numbers[session] = number + 1
    role, name = role.strip().lower(), role.strip()[:100]
    known = "assistant" if role in _ASSISTANTS else "user" if role in _USERS else role if role in _NOT_SAID else ""
    at = parse_time(value.get("at")) or ids.now()
    return Said(project[:500], session, number, known or "user", text, at, None if known else name or None)


def parse_time(given: Any) -> str | None:
    """Parse a time in one of many forms. It is in UTC if it names no time zone. Returns None if it is not a time."""
    try:
        if isinstance(given, int | float) and not isinstance(given, bool):
            return ids.from_ms(int(given if abs(given) > 10**11 else given * 1000))
        text = re.sub(r"\s*\([A-Za-z]{2,9}\)\s*", " ", str(given or "")).strip()
        if not text:
            return None
        for form in _TIME_FORMATS:
            try:
                parsed = datetime.strptime(text.upper().replace(" ON ", " on "), form).replace(tzinfo=UTC)
            except ValueError:
                continue
            return ids.from_ms(int(parsed.timestamp() * 1000))
        return ids.from_ms(ids.at_ms(text))
    except (ValueError, OverflowError, OSError):
        return None


def store(tx: Tx, agent: str, said: Sequence[Said]) -> int:
    """Store the new turns of one session under their numbers. Returns how many were new."""
    first, last = said[0], said[-1]
    session = _session(tx, agent, first, min(one.at for one in said))
    if session.last_event_at < (until := max(one.at for one in said)):
        session = _session(tx, agent, first, until)
    prompt_number, added = turns.prompt_number_before(tx, session.id, first.number), []
    for one in said:
        known = turns.prompt_number(tx, session.id, one.number)
        if known is not None:
            prompt_number = known
            continue
        given = turns.TurnDetails(number=one.number, speaker=one.speaker)
        if one.role == "user":
            prompt = sessions.add_prompt(tx, session, one.text, one.at, None, f"{turns.IMPORTED}{one.number}", given)
            prompt_number = prompt.number
            session = replace(session, prompt_counter=prompt_number)
        else:
            turns.add_reply(tx, session, prompt_number, one.text, one.at, given)
        added.append(one.number)
    if added:
        sessions.move(tx, session, "end", "imported", last.at)
        chunks.extend(tx, session, min(added))
    return len(added)


def _session(tx: Tx, agent: str, said: Said, at: str) -> Session:
    report = Report(agent, "prompt", ContentId(said.session), f"turn-{said.number}", at)
    return sessions.get_or_create(tx, report, Project(said.project, said.project))
