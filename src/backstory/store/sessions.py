"""Sessions and prompts: who is talking, in which state, and what was asked."""

from __future__ import annotations

from dataclasses import dataclass

from backstory import ids
from backstory.model import ContentId, MemoryId, Report
from backstory.project import Project
from backstory.sessions import states
from backstory.store import turns
from backstory.store.db import Row, Tx
from backstory.store.index.hits import item_of
from backstory.store.index.search import put_words

#: A `/clear` and the session that follows it are this close.
CLEAR_MS = 60_000
#: Two hooks that the agent ran for one and the same event start this close to each other.
TWIN_MS = 3_000
#: A hook starts up to this long after the time of its prompt's line. Older clients write the line after their hooks.
HOOK_AFTER_MS = 3_000
HOOK_BEFORE_MS = 30_000
#: So the event id of what a line of a transcript tells begins.
LINE = "transcript-"


@dataclass(frozen=True, slots=True)
class PromptPlace:
    """A prompt's place in its session."""

    number: int
    is_private: bool
    is_new: bool = True


def get_or_create(tx: Tx, report: Report, project: Project) -> Row:
    """The session of a report. The same agent and content id give the same row, always."""
    source = report.payload.get("source") if report.kind == "session_start" else None
    told = {
        "agent": report.agent,
        "content_id": report.content_id,
        "project": project.name,
        "project_key": project.key,
        "cwd": report.cwd,
        "git_branch": project.branch,
        "transcript_path": report.transcript_path,
        "at": report.occurred_at,
    }
    if known := tx.one("session_touch", **told):
        return known | {"is_new": False}
    made = tx.one("session_add", **told, start_source=source if isinstance(source, str) else None)
    if made:
        tx.run("session_moved", id=made["id"], from_status=None, status="created", cause="start", at=report.occurred_at)
        _link_to_parent(tx, made, report)
    row = made or tx.one("session_touch", **told)
    assert row is not None  # noqa: S101 - it was there before, was made, or was made by another
    return row | {"is_new": made is not None}


def _link_to_parent(tx: Tx, row: Row, report: Report) -> None:
    """`/clear` and forks make a new id; the client does not say of which conversation."""
    if row["start_source"] == "clear":
        _link_to_cleared(tx, row, report.occurred_at)
    elif row["start_source"] == "fork":
        quiet_s = report.payload.get("seconds_since_last_response")
        quiet_ms = int(quiet_s * 1000) if isinstance(quiet_s, int | float) and 0 <= quiet_s < 10**9 else 0
        _link_to_forked(tx, row, ids.at_ms(report.occurred_at) - quiet_ms)


def _link_to_cleared(tx: Tx, row: Row, at: str) -> None:
    since = ids.from_ms(ids.at_ms(at) - CLEAR_MS)
    parent = tx.one("session_cleared_before", agent=row["agent"], cwd=row["cwd"], since=since, id=row["id"])
    if parent:
        tx.run("session_set_parent", id=row["id"], parent_id=parent["id"])


def _link_to_forked(tx: Tx, row: Row, rested_ms: int) -> None:
    """The client does not say what it forked, but how long ago that was last answered."""
    beside = tx.all("sessions_beside", agent=row["agent"], cwd=row["cwd"], id=row["id"])
    if beside:
        parent = min(beside, key=lambda other: abs(ids.stored_ms(other["last_event_at"]) - rested_ms))
        tx.run("session_set_parent", id=row["id"], parent_id=parent["id"])


def by_content_id(tx: Tx, agent: str, content_id: ContentId) -> Row | None:
    return tx.one("session_by_content_id", agent=agent, content_id=content_id)


def by_id(tx: Tx, number: int) -> Row | None:
    return tx.one("session_by_id", id=number)


def has_memory_id(tx: Tx, memory_id: str) -> bool:
    """Whether a session has this memory id: two never share one."""
    return tx.one("session_by_memory_id", memory_id=memory_id) is not None


def raise_prompt_counter(tx: Tx, number: int, prompt_counter: int) -> None:
    """A session has at least this many prompts."""
    tx.run("session_has_prompts_to", id=number, number=prompt_counter)


def hold(tx: Tx, session: Row) -> Row:
    """The session as it is now; until this transaction ends nobody else writes to it."""
    return tx.one("session_hold", id=session["id"]) or session


def move(tx: Tx, session: Row, cause: str, reason: str | None = None, at: str | None = None) -> str:
    """Apply a cause to a session's state and record the move; the state after it."""
    at = at or ids.now()
    before, after = session["status"], states.after(session["status"], cause)
    if before == "completed" and at < (session["completed_at"] or ""):
        return str(before)  # it happened before the end, and is only told now
    if cause == "end" and after == "completed":
        tx.run("session_complete", id=session["id"], at=at, reason=reason)
    if after == before:
        return str(after)
    tx.run("session_move", id=session["id"], status=after)
    tx.run("session_moved", id=session["id"], from_status=before, status=after, cause=reason or cause, at=at)
    if before == "completed":
        tx.run("session_reopen", id=session["id"])
    return after


def add_prompt(
    tx: Tx,
    session: Row,
    text: str,
    at: str,
    number: int | None = None,
    prompt_id: str | None = None,
    turn: turns.Given = turns.NOTHING,
) -> PromptPlace:
    """Number a prompt and keep it, and with it the user's turn. A fully private one keeps its number and no text."""
    if number is not None and (known := tx.one("prompt_by_number", session_id=session["id"], number=number)):
        return PromptPlace(number, bool(known["is_private"]), is_new=False)
    known = tx.one("prompt_by_agents_id", session_id=session["id"], prompt_id=prompt_id) if prompt_id else None
    if known and not known["is_private"] and known["prompt"] in (None, text):
        return PromptPlace(known["prompt_number"], False, is_new=False)  # the same again; None if it was forgotten
    private = not text.strip() or bool(session["forgotten_at"])
    number = number or _reserved(tx, session, prompt_id) or session["prompt_counter"] + 1
    kept = None if private else text
    row = tx.one(
        "prompt_add",
        session_id=session["id"],
        number=number,
        prompt=kept,
        is_private=int(private),
        prompt_id=prompt_id,
        at=at,
    )
    tx.run("session_count_prompt", id=session["id"], number=number, prompt=kept and kept[:2000])
    # A new prompt ends the round before it: whatever of that still waits may be observed now.
    tx.run("session_settle", id=session["id"], settles_at=0)
    if kept and row and turn.number is None:  # else its turn is found, and nothing else says the same beside it
        put_words(tx, item_of("prompt", row["id"], session, at), "", kept)
    if row:
        turns.ask(tx, session, number, kept, at, turn)
    return PromptPlace(number, private)


def known_prompt(tx: Tx, session: Row, prompt_id: str | None, text: str) -> Row | None:
    """The same prompt, told before: the agent's id of it, and its words. (A fork gives its id to copies, too.)"""
    row = tx.one("prompt_by_agents_id", session_id=session["id"], prompt_id=prompt_id) if prompt_id else None
    return row if row and (row["prompt"] or "").split() == text.split() else None


def same_prompt(tx: Tx, session: Row, report: Report, text: str) -> Row | None:
    """The prompt of a report, if it was told before under another id: by a hook where the report is a line of the
    transcript, by a line where it is a hook's. They are of one moment and of the same words, and each is met once."""
    is_line = report.event_id.startswith(LINE)
    at = ids.at_ms(report.occurred_at)
    before, after = (HOOK_BEFORE_MS, HOOK_AFTER_MS) if is_line else (HOOK_AFTER_MS, HOOK_BEFORE_MS)
    around = {"since": ids.from_ms(at - before), "until": ids.from_ms(at + after)}
    near = tx.all("prompts_near", session_id=session["id"], **around)
    for row in sorted(near, key=lambda row: abs(ids.at_ms(row["created_at"]) - at)):
        tellers = tx.all("prompt_tellers", session_id=session["id"], prompt_number=row["prompt_number"])
        lines = {teller["event_id"] for teller in tellers if teller["event_id"].startswith(LINE)}
        is_met = bool(lines) if is_line else not lines or len(lines) < len(tellers)
        if not is_met and _may_be_same(row, report, lines) and _reads_the_same(row, text):
            return row
    return None


def _may_be_same(row: Row, report: Report, lines: set[str]) -> bool:
    """Whether the ids allow it: two of the agent's own are two prompts, but a line that has none is named by itself."""
    if report.prompt_id is None or row["prompt_id"] is None or report.prompt_id == row["prompt_id"]:
        return True
    return report.event_id == LINE + report.prompt_id or LINE + row["prompt_id"] in lines


def _reads_the_same(row: Row, text: str) -> bool:
    if row["prompt"] is None and not row["is_private"]:
        return True  # forgotten: it is rather the same one than told again
    return str(row["prompt"] or "").split() == text.split()


def named(tx: Tx, session: Row, prompt_id: str | None) -> PromptPlace | None:
    """The round of the agent's own id of a prompt: of one that was told, or that an event was done for."""
    if not prompt_id:
        return None
    row = tx.one("prompt_by_agents_id", session_id=session["id"], prompt_id=prompt_id)
    if row is None:
        carried = tx.one("round_named", session_id=session["id"], prompt_id=prompt_id)
        if carried is None:
            return None
        number = carried["prompt_number"]
        row = tx.one("prompt_by_number", session_id=session["id"], number=number)
        row = row or {"prompt_number": number, "is_private": False}
    return PromptPlace(row["prompt_number"], bool(row["is_private"]), is_new=False)


def prompt_for(tx: Tx, session: Row, prompt_id: str | None, at: str) -> PromptPlace:
    """The prompt that a thing belongs to: by the agent's own id of it, else by the clock."""
    if found := named(tx, session, prompt_id):
        return found
    if row := tx.one("prompt_at", session_id=session["id"], at=at):
        return PromptPlace(row["prompt_number"], bool(row["is_private"]), is_new=False)
    return PromptPlace(min(session["prompt_counter"], 1), is_private=False, is_new=False)


def reserve(tx: Tx, session: Row) -> PromptPlace:
    """The next number, for a prompt that an event names and nobody has told yet."""
    number = session["prompt_counter"] + 1
    tx.run("session_count_prompt", id=session["id"], number=number, prompt=None)
    return PromptPlace(number, is_private=False, is_new=False)


def _reserved(tx: Tx, session: Row, prompt_id: str | None) -> int | None:
    """The number under which events of this prompt already stand."""
    found = named(tx, session, prompt_id)
    if found is None or tx.one("prompt_by_number", session_id=session["id"], number=found.number):
        return None
    return found.number


def resume(
    memory_id: MemoryId | None, last_prompt_number: int, force_init: bool, *, issued_by: str | None, provider: str
) -> MemoryId | None:
    """The conversation that the observer goes on with: its own, of this provider and of this worker's time, or none."""
    real = memory_id and provider and issued_by == provider
    return memory_id if real and last_prompt_number > 1 and not force_init else None


def register_memory_id(tx: Tx, session: Row, memory_id: MemoryId, provider: str | None) -> None:
    """Take the observer's id of a session; an id that replaces another replaces it everywhere at once.
    `provider` issued it; nobody did if it was synthesized."""
    if session["memory_session_id"] == memory_id:
        return
    tx.run("session_set_memory_id", id=session["id"], memory_id=memory_id, provider=provider)
    tx.run("observations_follow_memory_id", id=session["id"], memory_id=memory_id)
    tx.run("summaries_follow_memory_id", id=session["id"], memory_id=memory_id)


def shown(row: Row) -> Row:
    """A session as the outside sees it: without what only the queue needs."""
    hidden = ("settles_at", "force_init", "memory_provider", "claude_session_id", "is_new")
    return {name: value for name, value in row.items() if name not in hidden}
