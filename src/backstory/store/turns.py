"""Turns: the messages of a conversation. A turn keeps its number, and no message is stored twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from backstory.model import FROM_LINE, Report, Session, Turn
from backstory.store import prompts
from backstory.store.db import Row, Tx
from backstory.store.index.hits import IndexedItem, item_of
from backstory.store.index.indexing import put_words, remove_words
from backstory.store.payloads import read_or_nothing

#: The id of a prompt that was imported as a turn begins with this. Search finds the turn, not the prompt.
IMPORTED = "turn-"
Put = Callable[[Tx, IndexedItem, str, str], None]
#: Characters of a message that are stored, at most.
MAX_TEXT = 50_000
#: Characters of the last replies of a round by which its observations are found, at most.
MAX_REPLIES = 2000


@dataclass(frozen=True, slots=True)
class TurnDetails:
    """What the source of a turn knows about it."""

    mark: str | None = None  #: the agent's own id of the message
    number: int | None = None  #: None for the next number
    speaker: str | None = None


NO_DETAILS = TurnDetails()
_COLUMNS = tuple(each.name for each in fields(Turn))


def from_row(row: Row) -> Turn:
    return Turn(**{name: row[name] for name in _COLUMNS})


def by_id(tx: Tx, number: int) -> Turn | None:
    row = tx.one("turn_by_id", id=number)
    return from_row(row) if row else None


def of_session(tx: Tx, session_id: int, after: int = -1, limit: int = 2**31) -> list[Turn]:
    """Return the turns of a session after a number, in their order."""
    return [from_row(row) for row in tx.all("turns_of_session", session_id=session_id, after=after, limit=limit)]


def up_to_round(tx: Tx, session_id: int, prompt_number: int, limit: int) -> list[Turn]:
    """Return the last turns of a session up to the end of a round, in their order."""
    about = {"session_id": session_id, "prompt_number": prompt_number, "limit": limit}
    return [from_row(row) for row in reversed(tx.all("turns_up_to_round", **about))]


def of_round(tx: Tx, session_id: int, prompt_number: int, role: str = "assistant") -> list[Turn]:
    """Return the turns of one role in a round, in their order."""
    about = {"session_id": session_id, "prompt_number": prompt_number, "role": role}
    return [from_row(row) for row in tx.all("turns_of_round", **about)]


def of_rounds(tx: Tx, session_id: int, first: int, last: int) -> list[Turn]:
    """Return the turns of several rounds in the order in which they were said."""
    rows = tx.all("turns_of_rounds", session_id=session_id, first=first, last=last)
    return [from_row(row) for row in rows]


def add_prompt(
    tx: Tx, session: Session, prompt_number: int, text: str | None, at: str, details: TurnDetails = NO_DETAILS
) -> bool:
    """Add the user's turn of a prompt; its text is None if it is private. Return False if it is known."""
    if details.number is None and of_round(tx, session.id, prompt_number, "user"):
        return False
    return _add(tx, session, prompt_number, "user", text, at, details)


def add_reply(
    tx: Tx, session: Session, prompt_number: int, text: str, at: str, details: TurnDetails = NO_DETAILS
) -> bool:
    """Add a turn of the assistant, from a hook or from the transcript. Return False if it is known. A turn of a private
    or forgotten round gets a number and no text."""
    mark = details.mark
    if mark and (row := tx.one("turn_by_mark", session_id=session.id, mark=mark)):
        known = from_row(row)
        if known.prompt_number != prompt_number:
            tx.run("turn_put_round", id=known.id, prompt_number=prompt_number)
        if not is_closed(tx, session.id, known.prompt_number):
            _grow(tx, session, known, text)
        return False
    replies = of_round(tx, session.id, prompt_number)
    if details.number is None:
        for turn in replies:
            # A hook and the transcript report the same message. Two ids of the agent are two messages.
            is_blank = turn.text is None and turn.mark is None
            if not (mark and turn.mark) and (is_blank or is_same(turn.text or "", text)):
                if mark:
                    tx.run("turn_put_mark", id=turn.id, mark=mark, at=at)
                return False
    wanted = all(turn.text is not None for turn in replies) and _is_wanted(tx, session, prompt_number)
    wanted = wanted and not is_closed(tx, session.id, prompt_number)
    return _add(tx, session, prompt_number, "assistant", text if wanted else None, at, details)


def add_last_replies(tx: Tx, session: Session) -> set[int]:
    """Add the last messages of the rounds that have no reply, and of the round that ended last. Several rounds may have
    ended at once, if they come from the spool. Return the numbers of the rounds."""
    stops = tx.all("stops_without_reply", session_id=session.id)
    if (last := tx.one("stop_of_session", session_id=session.id)) and last["id"] not in {stop["id"] for stop in stops}:
        stops.append(last)
    for stop in stops:
        _add_reply_of_stop(tx, session, stop)
    return {stop["prompt_number"] for stop in stops}


def _add_reply_of_stop(tx: Tx, session: Session, stop: Row) -> None:
    text = read_or_nothing(stop["payload"]).get("last_assistant_message")
    if isinstance(text, str) and text.strip():
        add_reply(tx, session, stop["prompt_number"], text, stop["occurred_at"])


def make_missing(tx: Tx, session: Session) -> None:
    """Make the turns of a session that has none, from its prompts and from the ends of its rounds."""
    rows = tx.all("prompts_of_session", session_id=session.id)
    if not rows or of_session(tx, session.id, limit=1):
        return
    stops = tx.all("stops_of_session", session_id=session.id)
    for prompt in rows:
        number = prompt["prompt_number"]
        add_prompt(tx, session, number, prompt["prompt"], prompt["created_at"])
        for stop in stops:
            if stop["prompt_number"] == number:
                _add_reply_of_stop(tx, session, stop)


def is_same(one: str, other: str) -> bool:
    """Tell whether two texts are the same message. A hook may report only its last block."""
    if one.split() == other.split():
        return True
    shorter, longer = sorted((one.strip(), other.strip()), key=len)
    return bool(shorter) and longer.endswith(f"\n{shorter}")


def _is_wanted(tx: Tx, session: Session, prompt_number: int, role: str = "assistant") -> bool:
    if session.forgotten_at:
        return False
    prompt = prompts.by_number(tx, session.id, prompt_number)
    if prompt and prompt.prompt is None:
        return False
    end = {"session_id": session.id, "prompt_number": prompt_number, "kind": "stop"}
    return role == "user" or tx.one("event_forgotten_in_round", **end) is None


def is_closed(tx: Tx, session_id: int, prompt_number: int) -> bool:
    """Tell whether sentences of a round were forgotten. What is said of it again would bring them back."""
    about = {"session_id": session_id, "kind": "round", "mark": str(prompt_number)}
    return tx.one("forgotten_has", **about) is not None


def _add(
    tx: Tx, session: Session, prompt_number: int, role: str, text: str | None, at: str, details: TurnDetails
) -> bool:
    number, speaker, mark = details.number, details.speaker, details.mark
    if number is not None and tx.one("turn_by_number", session_id=session.id, number=number):
        return False
    if number is None:
        number = _next(tx, session)
    text = None if session.forgotten_at or text is None else text[:MAX_TEXT]
    turn = Turn(0, session.id, number, prompt_number, role, speaker, text, at, mark)
    row = tx.one("turn_add", **{name: getattr(turn, name) for name in _COLUMNS[1:]})
    assert row is not None  # noqa: S101 - an insert returns its id
    index(tx, session, replace(turn, id=row["id"]))
    return True


def _grow(tx: Tx, session: Session, known: Turn, text: str) -> None:
    """Replace the text of a turn that was read before its end. A message is written block by block."""
    text = text[:MAX_TEXT]
    if known.text and len(text) > len(known.text) and text.startswith(known.text):
        tx.run("turn_put_text", id=known.id, text=text)
        index(tx, session, replace(known, text=text))
        for turn in of_round(tx, session.id, known.prompt_number):
            # The hook reported the whole message while the transcript had only its beginning.
            if turn.mark is None and is_same(turn.text or "", text):
                remove_words(tx, "turn", turn.id)
                tx.run("turn_remove", id=turn.id)


def index(tx: Tx, session: Session, turn: Turn, put: Put = put_words) -> None:
    if turn.text:
        put(tx, item_of("turn", turn.id, session, turn.at), "", with_speaker(turn))


def reply_text(tx: Tx, session_id: int, prompt_number: int, until: str = "") -> str:
    """Return the replies of a round up to a moment, or all of them if there were none by then."""
    replies = [(turn.at, turn.text) for turn in of_round(tx, session_id, prompt_number) if turn.text]
    texts = [text for at, text in replies if at <= (until or at)]
    return "\n".join(texts or [text for _, text in replies])[-MAX_REPLIES:]


def with_speaker(turn: Turn) -> str:
    """Return the text of a turn, after the name of its speaker if there is one."""
    return f"{turn.speaker}: {turn.text}" if turn.speaker else str(turn.text)


def same(tx: Tx, row: Row) -> Row | None:
    """Return the stored turn that is the same as a row of an import."""
    if row["mark"] and (known := tx.one("turn_by_mark", session_id=row["session_id"], mark=row["mark"])):
        return known
    known = tx.one("turn_by_number", session_id=row["session_id"], number=row["number"])
    return None if known and row["mark"] and known["mark"] else known


def fit_in(tx: Tx, session: Session, row: Row) -> None:
    """Give a row of an import a free number, and remove its text if that was forgotten here."""
    if tx.one("turn_by_number", session_id=row["session_id"], number=row["number"]):
        row["number"] = _next(tx, session)
    if not _is_wanted(tx, session, row["prompt_number"], row["role"]):
        row["text"] = None


def is_in_other_session(tx: Tx, report: Report) -> bool:
    """Tell whether another session of the agent has the same message. A fork repeats the original conversation."""
    mark = report.event_id.removeprefix(FROM_LINE)
    return tx.one("turn_in_other_session", mark=mark, agent=report.agent, content_id=report.content_id) is not None


def prompt_number(tx: Tx, session_id: int, number: int) -> int | None:
    """Return the prompt number of a turn; None if there is no such turn."""
    row = tx.one("turn_by_number", session_id=session_id, number=number)
    return row["prompt_number"] if row else None


def prompt_number_before(tx: Tx, session_id: int, number: int) -> int:
    """Return the prompt number of the turn before a number; 0 if there is none."""
    row = tx.one("turn_before", session_id=session_id, number=number)
    return row["prompt_number"] if row else 0


def _next(tx: Tx, session: Session) -> int:
    row = tx.one("turn_next", session_id=session.id)
    return int(row["number"]) if row else 0


def put_text(tx: Tx, session: Session, turn: Turn, text: str) -> None:
    """Replace the text of a turn; an empty one removes it. The caller must rebuild the chunks."""
    remove_words(tx, "turn", turn.id)
    tx.run("turn_put_text", id=turn.id, text=text or None)
    index(tx, session, replace(turn, text=text))


def blank(tx: Tx, turn: Turn) -> int:
    """Remove the text of a turn; its number stays. The caller must rebuild the chunks. Return the number of changes."""
    if turn.text is None:
        return 0
    remove_words(tx, "turn", turn.id)
    return tx.run("turn_put_text", id=turn.id, text=None)
