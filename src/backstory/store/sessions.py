"""Sessions and prompts: who is talking, in which state, and what was asked."""

from __future__ import annotations

from dataclasses import fields
from operator import itemgetter

from backstory import ids
from backstory.model import FROM_LINE, ContentId, MemoryId, Prompt, Report, Session, SessionStatus
from backstory.project import Project
from backstory.sessions import states
from backstory.store import prompts, turns
from backstory.store.db import Row, Tx
from backstory.store.index.hits import item_of
from backstory.store.index.search import put_words
from backstory.store.prompts import PromptPlace

#: A `/clear` and the session that follows it are this close.
CLEAR_MS = 60_000
#: Two hooks that the agent ran for one and the same event start this close to each other.
TWIN_MS = 3_000
#: A hook starts up to this long after the time of its prompt's line. Older clients write the line after their hooks.
HOOK_AFTER_MS = 3_000
HOOK_BEFORE_MS = 30_000
#: The columns of a session.
_COLUMNS = tuple(each.name for each in fields(Session) if each.name != "is_new")
_values = itemgetter(*_COLUMNS, "is_new")
#: Columns that only the queue and the observer need.
_INTERNAL = ("settles_at", "force_init", "memory_provider")


def from_row(row: Row, is_new: bool = False) -> Session:
    # By position, not by name: every event makes a session, and this takes 5 µs instead of 7.
    typed = {"status": SessionStatus(row["status"]), "force_init": bool(row["force_init"]), "is_new": is_new}
    return Session(*_values(row | typed))


def shown(session: Session) -> Row:
    """Return a session as the API shows it."""
    return {name: getattr(session, name) for name in _COLUMNS if name not in _INTERNAL}


def listed(tx: Tx, project: str, before: int, limit: int, *, agent: str = "", status: str = "") -> list[Row]:
    """Return sessions with a smaller id than `before` as the API shows them, newest first."""
    rows = tx.all("sessions_list", project=project, agent=agent, status=status, before=before, limit=limit)
    return [shown(from_row(row)) | {"observation_count": row["observation_count"]} for row in rows]


def moves(tx: Tx, number: int) -> list[Row]:
    """Return the moves between the states of a session as the API shows them, oldest first."""
    return tx.all("session_moves", id=number)


def force_init(tx: Tx) -> None:
    """Have the observer begin a new conversation for every session."""
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
        "git_branch": project.branch,
        "transcript_path": report.transcript_path,
        "at": report.occurred_at,
    }
    if row := tx.one("session_touch", **values):
        return from_row(row)
    if row := tx.one("session_add", **values, start_source=source if isinstance(source, str) else None):
        session = from_row(row, is_new=True)
        at = report.occurred_at
        tx.run("session_move_add", id=session.id, from_status=None, status=session.status, cause="start", at=at)
        _link_to_parent(tx, session, report)
        return session
    row = tx.one("session_touch", **values)
    assert row is not None  # noqa: S101 - another writer made it since the first look
    return from_row(row)


def _link_to_parent(tx: Tx, session: Session, report: Report) -> None:
    """Link a session to the one that was cleared or forked. The client gives it a new id and does not name the old."""
    if session.start_source == "clear":
        _link_to_cleared(tx, session, report.occurred_at)
    elif session.start_source == "fork":
        quiet_s = report.payload.get("seconds_since_last_response")
        quiet_ms = int(quiet_s * 1000) if isinstance(quiet_s, int | float) and 0 <= quiet_s < 10**9 else 0
        _link_to_forked(tx, session, ids.at_ms(report.occurred_at) - quiet_ms)


def _link_to_cleared(tx: Tx, session: Session, at: str) -> None:
    since = ids.from_ms(ids.at_ms(at) - CLEAR_MS)
    parent = tx.one("session_cleared_before", agent=session.agent, cwd=session.cwd, since=since, id=session.id)
    if parent:
        tx.run("session_set_parent", id=session.id, parent_id=parent["id"])


def _link_to_forked(tx: Tx, session: Session, rested_ms: int) -> None:
    """Link to the session whose last event is nearest to the moment that the client says its last response was."""
    beside = tx.all("sessions_in_same_folder", agent=session.agent, cwd=session.cwd, id=session.id)
    if beside:
        parent = min(beside, key=lambda other: abs(ids.stored_ms(other["last_event_at"]) - rested_ms))
        tx.run("session_set_parent", id=session.id, parent_id=parent["id"])


def by_content_id(tx: Tx, agent: str, content_id: ContentId) -> Session | None:
    row = tx.one("session_by_content_id", agent=agent, content_id=content_id)
    return from_row(row) if row else None


def by_id(tx: Tx, number: int) -> Session | None:
    row = tx.one("session_by_id", id=number)
    return from_row(row) if row else None


def has_memory_id(tx: Tx, memory_id: str) -> bool:
    """Whether a session has this memory id: two never share one."""
    return tx.one("session_by_memory_id", memory_id=memory_id) is not None


def raise_prompt_counter(tx: Tx, number: int, prompt_counter: int) -> None:
    """A session has at least this many prompts."""
    tx.run("session_raise_prompt_counter", id=number, number=prompt_counter)


def by_prefix(tx: Tx, name: str) -> Session | None:
    """Return the session with this content id, or the only one whose content id begins with it."""
    literal = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    rows = tx.all("sessions_like", id=name, prefix=literal + "%" if len(name) >= 4 else literal)
    exact = [row for row in rows if row["content_session_id"] == name]
    if exact or len(rows) == 1:
        return from_row((exact or rows)[0])
    return None


def get(tx: Tx, number: int) -> Session:
    """Return the session that a row belongs to."""
    session = by_id(tx, number)
    assert session is not None  # noqa: S101 - the foreign key holds it
    return session


def open_transcripts(tx: Tx, agent: str) -> list[str]:
    """Return the transcripts of an agent's open sessions, newest first."""
    return [row["transcript_path"] for row in tx.all("sessions_open_with_transcript", agent=agent)]


def hold(tx: Tx, number: int) -> Session:
    """Return a session as it is now. Nobody else writes to it until this transaction ends."""
    row = tx.one("session_hold", id=number)
    assert row is not None  # noqa: S101 - sessions are never deleted
    return from_row(row)


def move(tx: Tx, session: Session, cause: str, reason: str | None = None, at: str | None = None) -> SessionStatus:
    """Apply a cause to a session's state and record the move. Return the state after it."""
    at = at or ids.now()
    before, after = session.status, states.after(session.status, cause)
    if before == SessionStatus.COMPLETED and at < (session.completed_at or ""):
        return before  # it happened before the session ended, and was reported after
    if cause == "end" and after == SessionStatus.COMPLETED:
        tx.run("session_complete", id=session.id, at=at, reason=reason)
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
    turn: turns.Given = turns.NOTHING,
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
    # A new prompt ends the round before it: the events of that round that still wait may be observed now.
    tx.run("session_settle", id=session.id, settles_at=0)
    if kept and row and turn.number is None:  # an imported turn is indexed by itself
        put_words(tx, item_of("prompt", row["id"], session, at), "", kept)
    if row:
        turns.ask(tx, session, number, kept, at, turn)
    return PromptPlace(number, private)


def known_prompt(tx: Tx, session: Session, prompt_id: str | None, text: str) -> Prompt | None:
    """Return the stored prompt with the same id and words. The id is not enough: a fork gives it to copies, too."""
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
        tellers = tx.all("prompt_event_ids", session_id=session.id, prompt_number=prompt.prompt_number)
        lines = {teller["event_id"] for teller in tellers if teller["event_id"].startswith(FROM_LINE)}
        is_met = bool(lines) if is_line else not lines or len(lines) < len(tellers)
        if not is_met and _may_be_same(prompt, report, lines) and _reads_the_same(prompt, text):
            return prompt
    return None


def _may_be_same(prompt: Prompt, report: Report, lines: set[str]) -> bool:
    """Tell whether the ids allow it. Two ids of the agent's are two prompts; a line without one is named by itself."""
    if report.prompt_id is None or prompt.prompt_id is None or report.prompt_id == prompt.prompt_id:
        return True
    return report.event_id == FROM_LINE + report.prompt_id or FROM_LINE + prompt.prompt_id in lines


def _reads_the_same(prompt: Prompt, text: str) -> bool:
    if prompt.prompt is None and not prompt.is_private:
        return True  # its text was forgotten: taking it for the same one keeps it from being stored again
    return str(prompt.prompt or "").split() == text.split()


def named(tx: Tx, session: Session, prompt_id: str | None) -> PromptPlace | None:
    """Return the place of the agent's id of a prompt, from the prompt itself or from the events that carry the id."""
    if not prompt_id:
        return None
    if prompt := prompts.by_prompt_id(tx, session.id, prompt_id):
        return prompts.place_of(prompt)
    carried = tx.one("round_of_prompt_id", session_id=session.id, prompt_id=prompt_id)
    if carried is None:
        return None
    prompt = prompts.by_number(tx, session.id, carried["prompt_number"])
    return PromptPlace(carried["prompt_number"], bool(prompt and prompt.is_private), is_new=False)


def prompt_for(tx: Tx, session: Session, prompt_id: str | None, at: str) -> PromptPlace:
    """Return the prompt that a report belongs to: by the agent's id of it, else by the clock."""
    if place := named(tx, session, prompt_id):
        return place
    if prompt := prompts.at(tx, session.id, at):
        return prompts.place_of(prompt)
    return PromptPlace(min(session.prompt_counter, 1), is_private=False, is_new=False)


def reserve(tx: Tx, session: Session) -> PromptPlace:
    """Reserve the next number for a prompt that an event names and that was not reported yet."""
    number = session.prompt_counter + 1
    tx.run("session_count_prompt", id=session.id, number=number, prompt=None)
    return PromptPlace(number, is_private=False, is_new=False)


def _reserved(tx: Tx, session: Session, prompt_id: str | None) -> int | None:
    """Return the number that events of this prompt already have."""
    place = named(tx, session, prompt_id)
    if place is None or prompts.by_number(tx, session.id, place.number):
        return None
    return place.number


def resume(
    memory_id: MemoryId | None, last_prompt_number: int, force_init: bool, *, issued_by: str | None, provider: str
) -> MemoryId | None:
    """The conversation that the observer goes on with: its own, of this provider and of this worker's time, or none."""
    real = memory_id and provider and issued_by == provider
    return memory_id if real and last_prompt_number > 1 and not force_init else None


def register_memory_id(tx: Tx, session: Session, memory_id: MemoryId, provider: str | None) -> None:
    """Take the observer's id of a session; an id that replaces another replaces it everywhere at once.
    `provider` issued it; nobody did if it was synthesized."""
    if session.memory_session_id == memory_id:
        return
    tx.run("session_set_memory_id", id=session.id, memory_id=memory_id, provider=provider)
    tx.run("observations_follow_memory_id", id=session.id, memory_id=memory_id)
    tx.run("summaries_follow_memory_id", id=session.id, memory_id=memory_id)
