"""Sessions: finds and creates them, changes their state, and numbers and stores their prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import itemgetter

from backstory import ids
from backstory.errors import Forbidden
from backstory.model import FROM_LINE, ContentId, MemoryId, Prompt, Report, Session, SessionStatus
from backstory.project import Project, group_of
from backstory.sessions import states
from backstory.sessions.states import SessionKind
from backstory.store import prompts, turns
from backstory.store.db import Row, Tx
from backstory.store.index.hits import Filter, item_of
from backstory.store.index.indexing import put_words
from backstory.store.prompts import PromptPlace

#: Milliseconds between a `/clear` and the session that follows it, at most.
CLEAR_MS = 60_000
#: Milliseconds between two hooks that the agent runs for the same event, at most.
TWIN_MS = 3_000
#: The same for the end of a round, if it has the same words and nothing happened since.
LATE_TWIN_MS = 60_000
#: Milliseconds from the line of a prompt in the transcript to its hook, at most.
HOOK_AFTER_MS = 3_000
#: Milliseconds from the hook of a prompt to its line, at most. Older clients write the line after their hooks.
HOOK_BEFORE_MS = 30_000
#: The latest sessions of a project among which those of a branch are looked for. It bounds the time.
MAX_LATEST = 2000
#: The columns of a session.
_COLUMNS = tuple(each.name for each in fields(Session) if each.name != "is_new")
_values = itemgetter(*_COLUMNS, "is_new")
#: States of a session in which nothing happens. What is reported late does not end them.
_AT_REST = (SessionStatus.PAUSED, SessionStatus.FAILED)
#: Columns that only the queue and the observer need.
_INTERNAL = ("settles_at", "force_init", "memory_provider")


def from_row(row: Row, is_new: bool = False) -> Session:
    # Every event makes a session. Passing the fields by position takes 5 µs instead of 7.
    typed = {"status": SessionStatus(row["status"]), "force_init": bool(row["force_init"]), "is_new": is_new}
    return Session(*_values(row | typed))


def shown(session: Session) -> Row:
    """Return a session as the API shows it."""
    return {name: getattr(session, name) for name in _COLUMNS if name not in _INTERNAL}


#: Filters of a list of sessions. An empty one matches every session.
_NO_FILTER = dict.fromkeys(("agent", "status", "tag", "branch", "since", "until"), "")


def listed(tx: Tx, project: str, before: int, limit: int, **filters: str) -> list[Row]:
    """Return sessions as the API shows them, the last used first, after the session `before` in this order."""
    rows = tx.all("sessions_list", **_NO_FILTER | filters, project=project, before=before, limit=limit)
    return [shown(from_row(row)) | {"observation_count": row["observation_count"]} for row in rows]


def by_ids(tx: Tx, numbers: Iterable[int]) -> dict[int, Session]:
    """Return sessions by id, without forgotten ones."""
    rows = tx.all("sessions_by_ids", ids=json.dumps(list(numbers)))
    return {row["id"]: from_row(row) for row in rows}


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """When a session was at work."""

    id: int
    created_at: str
    last_event_at: str


def places(
    tx: Tx, where: Filter, limit: int, *, branch: str = "", since: str = "", until: str = ""
) -> list[SessionPlace]:
    """Return the latest sessions of a filter's project and agent: of a branch, and at work within two times."""
    about = {"project": where.project, "agent": where.agent, "is_outside_groups": int(where.is_outside_groups)}
    about |= {"branch": branch, "since": since, "until": until, "limit": limit, "among": MAX_LATEST}
    rows = tx.all("session_places", **about) if where.project else []
    rows = rows or tx.all("session_places_by_name", **about)
    return [SessionPlace(row["id"], row["created_at"], row["last_event_at"]) for row in rows]


def children(tx: Tx, number: int) -> list[Row]:
    """Return id and start source of the sessions that were cleared or forked from a session."""
    return tx.all("session_children", id=number)


def sizes(tx: Tx, numbers: Iterable[int]) -> dict[int, int]:
    """Return session -> how long it is, in chunks."""
    return {row["session_id"]: row["chunks"] for row in tx.all("session_sizes", ids=json.dumps(list(numbers)))}


def directories(tx: Tx, project_key: str, limit: int) -> list[str]:
    """Return the directories in which a project was worked in, the latest first."""
    return [row["cwd"] for row in tx.all("directories_of_project", project_key=project_key, limit=limit)]


def moves(tx: Tx, number: int) -> list[Row]:
    """Return the moves between the states of a session as the API shows them, oldest first."""
    return tx.all("session_moves", id=number)


def force_init(tx: Tx) -> None:
    """Let the observer begin a new conversation for every session."""
    tx.run("sessions_force_init")


def get_or_create(tx: Tx, report: Report, project: Project) -> Session:
    """Return the session of a report. The same agent and content id always give the same session."""
    source = report.payload.get("source") if report.kind == "session_start" else None
    values = {
        "agent": report.agent,
        "content_id": report.content_id,
        "project": project.name,
        "project_key": project.key,
        "cwd": report.cwd,
        "root": project.root,
        "git_branch": project.branch,
        "transcript_path": report.transcript_path,
        "at": report.occurred_at,
    }
    if row := tx.one("session_touch", **values):
        if project.key and group_of(row["project_key"]) != group_of(project.key):
            raise Forbidden("This session belongs to another group.", "Each group has sessions of its own.")
        return from_row(row)
    if row := tx.one("session_add", **values, start_source=source if isinstance(source, str) else None):
        session = from_row(row, is_new=True)
        at = report.occurred_at
        tx.run("session_move_add", id=session.id, from_status=None, status=session.status, cause="start", at=at)
        _link_to_parent(tx, session, report)
        return session
    row = tx.one("session_touch", **values)
    assert row is not None  # noqa: S101 - another writer has just added it
    return from_row(row)


def _link_to_parent(tx: Tx, session: Session, report: Report) -> None:
    """Link a session to the one that was cleared or forked. The agent does not report the id of that one.

    A fork is linked to the session whose last event is nearest to the last response, as the agent reports its time.
    """
    about = {"agent": session.agent, "cwd": session.cwd, "id": session.id}
    parent = None
    if session.start_source == "clear":
        since = ids.from_ms(ids.at_ms(report.occurred_at) - CLEAR_MS)
        parent = tx.one("session_cleared_before", since=since, **about)
    elif session.start_source == "fork":
        quiet_s = report.payload.get("seconds_since_last_response")
        quiet_ms = int(quiet_s * 1000) if isinstance(quiet_s, int | float) and 0 <= quiet_s < 10**9 else 0
        last_ms = ids.at_ms(report.occurred_at) - quiet_ms
        others = tx.all("sessions_in_same_folder", **about)
        parent = min(others, key=lambda row: abs(ids.stored_ms(row["last_event_at"]) - last_ms), default=None)
    if parent:
        set_parent(tx, session, parent["id"])


def set_parent(tx: Tx, session: Session, parent_id: int) -> None:
    """Link a session to the one that it goes on from, unless it is linked already."""
    tx.run("session_set_parent", id=session.id, parent_id=parent_id)


def by_content_id(tx: Tx, agent: str, content_id: ContentId) -> Session | None:
    row = tx.one("session_by_content_id", agent=agent, content_id=content_id)
    return from_row(row) if row else None


def by_id(tx: Tx, number: int) -> Session | None:
    row = tx.one("session_by_id", id=number)
    return from_row(row) if row else None


def has_memory_id(tx: Tx, memory_id: str) -> bool:
    """Tell whether a session has this memory id. Two sessions never share one."""
    return tx.one("session_by_memory_id", memory_id=memory_id) is not None


def raise_prompt_counter(tx: Tx, number: int, prompt_counter: int) -> None:
    """Raise the number of prompts of a session to at least this."""
    tx.run("session_raise_prompt_counter", id=number, number=prompt_counter)


def by_prefix(tx: Tx, name: str) -> Session | None:
    """Return the session with this content id, or the only one whose content id begins with it."""
    literal = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    rows = tx.all("sessions_like", id=name, prefix=literal + "%" if len(name) >= 4 else literal)
    exact = [row for row in rows if row["content_session_id"] == name]
    return from_row((exact or rows)[0]) if exact or len(rows) == 1 else None


def get(tx: Tx, number: int) -> Session:
    """Return the session that a row belongs to."""
    session = by_id(tx, number)
    assert session is not None  # noqa: S101 - a foreign key refers to it
    return session


def open_transcripts(tx: Tx, agent: str) -> list[str]:
    """Return the transcripts of an agent's open sessions, newest first."""
    return [row["transcript_path"] for row in tx.all("sessions_open_with_transcript", agent=agent)]


def hold(tx: Tx, number: int) -> Session:
    """Return a session and lock it until this transaction ends."""
    row = tx.one("session_hold", id=number)
    assert row is not None  # noqa: S101 - sessions are never deleted
    return from_row(row)


def move(
    tx: Tx,
    session: Session,
    cause: str,
    reason: str | None = None,
    at: str | None = None,
    kind: SessionKind = SessionKind.HOOK,
) -> SessionStatus:
    """Apply a cause to a session's state and record the move. Return the state after it.

    A cause that is impossible in this state changes nothing.
    """
    at = at or ids.now()
    before, after = session.status, states.after(session.status, cause, kind)
    if after is None:
        return before
    if before == SessionStatus.COMPLETED and at < (session.completed_at or ""):
        return before  # reported after the session ended, but happened before
    if before in _AT_REST and after == SessionStatus.ACTIVE:
        about = {"id": session.id, "status": before, "at": at, "now": ids.now()}
        if tx.one("session_moved_after", **about):
            return before  # the same; a transcript is read again at every start of the worker
    if cause == "end" and tx.one("session_active_after", id=session.id, at=at):
        return before  # an end that was reported late: the session has been resumed since
    if states.MOVES[cause].to == SessionStatus.COMPLETED:
        tx.run("session_complete", id=session.id, at=at, reason=reason or (None if cause == "end" else cause))
    if after == before:
        return after
    tx.run("session_set_status", id=session.id, status=after)
    tx.run("session_move_add", id=session.id, from_status=before, status=after, cause=reason or cause, at=at)
    if before == SessionStatus.COMPLETED:
        tx.run("session_reopen", id=session.id)
    return after


def add_prompt(
    tx: Tx,
    session: Session,
    text: str,
    at: str,
    number: int | None = None,
    prompt_id: str | None = None,
    turn: turns.TurnDetails = turns.NO_DETAILS,
) -> PromptPlace:
    """Number and store a prompt, and the user's turn with it. A private prompt keeps its number and no text."""
    if number is not None and (known := prompts.by_number(tx, session.id, number)):
        return PromptPlace(number, known.is_private, is_new=False)
    known = prompts.by_prompt_id(tx, session.id, prompt_id)
    if known and not known.is_private and known.prompt in (None, text):
        return prompts.place_of(known)  # reported twice; its text is None if it was forgotten
    private = not text.strip() or bool(session.forgotten_at)
    number = number or _reserved(tx, session, prompt_id) or session.prompt_counter + 1
    kept = None if private else text
    row = tx.one(
        "prompt_add",
        session_id=session.id,
        number=number,
        prompt=kept,
        is_private=int(private),
        prompt_id=prompt_id,
        at=at,
    )
    tx.run("session_count_prompt", id=session.id, number=number, prompt=kept and kept[:2000])
    # A new prompt ends the round before it, so the waiting events of that round can be observed.
    tx.run("session_settle", id=session.id, settles_at=0)
    if kept and row and turn.number is None:  # an imported turn is indexed by itself
        put_words(tx, item_of("prompt", row["id"], session, at), "", kept)
    if row:
        turns.add_prompt(tx, session, number, kept, at, turn)
    return PromptPlace(number, private)


def known_prompt(tx: Tx, session: Session, prompt_id: str | None, text: str) -> Prompt | None:
    """Return the stored prompt with the same id and words. The id alone is not enough, because forks repeat it."""
    prompt = prompts.by_prompt_id(tx, session.id, prompt_id)
    return prompt if prompt and (prompt.prompt or "").split() == text.split() else None


def same_prompt(tx: Tx, session: Session, report: Report, text: str) -> Prompt | None:
    """Return the prompt of a report if it is stored under another id.

    A hook and a line of the transcript report the same prompt, with the same words and at about the same moment. A
    prompt that both have reported matches no third report.
    """
    is_line = report.event_id.startswith(FROM_LINE)
    at = ids.at_ms(report.occurred_at)
    before, after = (HOOK_BEFORE_MS, HOOK_AFTER_MS) if is_line else (HOOK_AFTER_MS, HOOK_BEFORE_MS)
    near = prompts.near(tx, session.id, ids.from_ms(at - before), ids.from_ms(at + after))
    for prompt in sorted(near, key=lambda one: abs(ids.at_ms(one.created_at) - at)):
        rows = tx.all("prompt_event_ids", session_id=session.id, prompt_number=prompt.prompt_number)
        lines = {row["event_id"] for row in rows if row["event_id"].startswith(FROM_LINE)}
        is_matched = bool(lines) if is_line else not lines or len(lines) < len(rows)
        if not is_matched and _may_be_same(prompt, report, lines) and _reads_the_same(prompt, text):
            return prompt
    return None


def _may_be_same(prompt: Prompt, report: Report, lines: set[str]) -> bool:
    """Tell whether the ids allow it. Two ids of the agent are two prompts. A line without an id has its own as one."""
    if report.prompt_id is None or prompt.prompt_id is None or report.prompt_id == prompt.prompt_id:
        return True
    return report.event_id == FROM_LINE + report.prompt_id or FROM_LINE + prompt.prompt_id in lines


def _reads_the_same(prompt: Prompt, text: str) -> bool:
    if prompt.prompt is None and not prompt.is_private:
        return True  # its text was forgotten and must not be stored again
    return str(prompt.prompt or "").split() == text.split()


def place_of_prompt_id(tx: Tx, session: Session, prompt_id: str | None) -> PromptPlace | None:
    """Return the place of the agent's id of a prompt, from the prompt itself or from the events that carry the id."""
    if not prompt_id:
        return None
    if prompt := prompts.by_prompt_id(tx, session.id, prompt_id):
        return prompts.place_of(prompt)
    row = tx.one("round_of_prompt_id", session_id=session.id, prompt_id=prompt_id)
    if row is None:
        return None
    prompt = prompts.by_number(tx, session.id, row["prompt_number"])
    return PromptPlace(row["prompt_number"], bool(prompt and prompt.is_private), is_new=False)


def prompt_for(tx: Tx, session: Session, prompt_id: str | None, at: str) -> PromptPlace:
    """Return the prompt that a report belongs to: by the agent's id of it, else by time."""
    if place := place_of_prompt_id(tx, session, prompt_id):
        return place
    if prompt := prompts.at(tx, session.id, at):
        return prompts.place_of(prompt)
    return PromptPlace(min(session.prompt_counter, 1), is_private=False, is_new=False)


def reserve(tx: Tx, session: Session) -> PromptPlace:
    """Reserve the next number for a prompt that an event refers to and that was not reported yet."""
    number = session.prompt_counter + 1
    tx.run("session_count_prompt", id=session.id, number=number, prompt=None)
    return PromptPlace(number, is_private=False, is_new=False)


def _reserved(tx: Tx, session: Session, prompt_id: str | None) -> int | None:
    """Return the number that events of this prompt already have."""
    place = place_of_prompt_id(tx, session, prompt_id)
    return None if place is None or prompts.by_number(tx, session.id, place.number) else place.number


def resume(
    memory_id: MemoryId | None, last_prompt_number: int, force_init: bool, *, issued_by: str | None, provider: str
) -> MemoryId | None:
    """Return the observer's conversation to resume: one that this provider issued to this worker, or None."""
    is_own = memory_id and provider and issued_by == provider
    return memory_id if is_own and last_prompt_number > 1 and not force_init else None


def register_memory_id(tx: Tx, session: Session, memory_id: MemoryId, provider: str | None) -> None:
    """Set the memory id of a session, also in its observations and summaries.

    `provider` is the one that issued it; None if it was synthesized.
    """
    if session.memory_session_id == memory_id:
        return
    tx.run("session_set_memory_id", id=session.id, memory_id=memory_id, provider=provider)
    tx.run("observations_follow_memory_id", id=session.id, memory_id=memory_id)
    tx.run("summaries_follow_memory_id", id=session.id, memory_id=memory_id)
