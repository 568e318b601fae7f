"""The conversation itself: what was said, message by message. A number once given stays, and nothing is kept twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from backstory.model import Report, Session
from backstory.store import prompts
from backstory.store.db import Row, Tx
from backstory.store.index.hits import IndexedItem, item_of
from backstory.store.index.search import put_words, remove_words
from backstory.store.payloads import read_or_nothing

#: So the id of a prompt begins that came as a turn of a conversation: the turn is found, and not the prompt beside it.
IMPORTED = "turn-"
Put = Callable[[Tx, IndexedItem, str, str], None]
#: What is kept of one message at the most.
LONGEST = 50_000
#: What was said in a round by which things that were made of it are found, the last of it.
SAID = 2000


@dataclass(frozen=True, slots=True)
class Given:
    """What a conversation itself says of a turn, where it does."""

    mark: str | None = None  #: the agent's own id of the message
    number: int | None = None  #: else it gets the next
    speaker: str | None = None


NOTHING = Given()


def ask(
    tx: Tx,
    session: Session,
    prompt_number: int,
    text: str | None,
    at: str,
    given: Given = NOTHING,
) -> bool:
    """The user's turn of a prompt; False if it is there already. None is the text of one that is private."""
    said = {"session_id": session.id, "prompt_number": prompt_number, "role": "user"}
    if given.number is None and tx.all("turns_of_round", **said):
        return False
    return _add(tx, session, prompt_number, "user", text, at, given)


def reply(
    tx: Tx,
    session: Session,
    prompt_number: int,
    text: str,
    at: str,
    given: Given = NOTHING,
) -> bool:
    """The assistant's turn, by a hook or by the transcript; False if it is there already. Of a private round, or of
    one that was forgotten, only the number is kept."""
    mark = given.mark
    if mark and (known := tx.one("turn_by_mark", session_id=session.id, mark=mark)):
        if known["prompt_number"] != prompt_number:
            tx.run("turn_put_round", id=known["id"], prompt_number=prompt_number)
        _grow(tx, session, known, text)
        return False
    said = tx.all("turns_of_round", session_id=session.id, prompt_number=prompt_number, role="assistant")
    if given.number is None:
        for row in said:
            # A hook and the transcript tell the same message; two of the agent's own ids are two messages.
            is_blank = row["text"] is None and row["mark"] is None
            if not (mark and row["mark"]) and (is_blank or is_same(row["text"] or "", text)):
                if mark:
                    tx.run("turn_put_mark", id=row["id"], mark=mark, at=at)
                return False
    wanted = all(row["text"] is not None for row in said) and _is_wanted(tx, session, prompt_number)
    return _add(tx, session, prompt_number, "assistant", text if wanted else None, at, given)


def ended(tx: Tx, session: Session) -> int | None:
    """The last words of the round that ended last, where nothing but the hook has told them; which round that is."""
    if (stop := tx.one("stop_of_session", session_id=session.id)) is None:
        return None
    _last_words(tx, session, stop)
    return int(stop["prompt_number"])


def _last_words(tx: Tx, session: Session, stop: Row) -> None:
    text = read_or_nothing(stop["payload"]).get("last_assistant_message")
    if isinstance(text, str) and text.strip():
        reply(tx, session, stop["prompt_number"], text, stop["occurred_at"])


def fill(tx: Tx, session: Session) -> None:
    """Turns of a session that has none, made of its prompts and of how its rounds ended."""
    prompts = tx.all("prompts_of_session", session_id=session.id)
    if not prompts or tx.all("turns_of_session", session_id=session.id, after=-1, limit=1):
        return
    stops = tx.all("stops_of_session", session_id=session.id)
    for prompt in prompts:
        number = prompt["prompt_number"]
        ask(tx, session, number, prompt["prompt"], prompt["created_at"])
        for stop in stops:
            if stop["prompt_number"] == number:
                _last_words(tx, session, stop)


def is_same(one: str, other: str) -> bool:
    """Whether two texts are one message: a hook may tell the last of its blocks only."""
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


def _add(
    tx: Tx,
    session: Session,
    prompt_number: int,
    role: str,
    text: str | None,
    at: str,
    given: Given,
) -> bool:
    number = given.number
    if number is not None and tx.one("turn_by_number", session_id=session.id, number=number):
        return False
    if number is None:
        number = _next(tx, session)
    text = None if session.forgotten_at or text is None else text[:LONGEST]
    row = tx.one(
        "turn_add",
        session_id=session.id,
        number=number,
        prompt_number=prompt_number,
        role=role,
        speaker=given.speaker,
        text=text,
        at=at,
        mark=given.mark,
    )
    assert row is not None  # noqa: S101 - an insert answers with its id
    index(tx, session, {"id": row["id"], "speaker": given.speaker, "text": text, "at": at})
    return True


def _grow(tx: Tx, session: Session, known: Row, text: str) -> None:
    """A message is written block by block, and may have been read before its end."""
    text = text[:LONGEST]
    if known["text"] and len(text) > len(known["text"]) and text.startswith(known["text"]):
        tx.run("turn_put_text", id=known["id"], text=text)
        index(tx, session, known | {"text": text})
        about = {"session_id": session.id, "prompt_number": known["prompt_number"], "role": "assistant"}
        for row in tx.all("turns_of_round", **about):
            # The hook told the whole message while the transcript had only its beginning.
            if row["mark"] is None and is_same(row["text"] or "", text):
                remove_words(tx, "turn", row["id"])
                tx.run("turn_remove", id=row["id"])


def index(tx: Tx, session: Session, row: Row, put: Put = put_words) -> None:
    """The words of a turn."""
    if row["text"]:
        put(tx, item_of("turn", row["id"], session, row["at"]), "", told(row))


def said(tx: Tx, session_id: int, prompt_number: int, until: str = "") -> str:
    """What the assistant said in a round, up to a time, if it said anything by then."""
    rows = tx.all("turns_of_round", session_id=session_id, prompt_number=prompt_number, role="assistant")
    texts = [row["text"] for row in rows if row["text"] and row["at"] <= (until or row["at"])]
    return "\n".join(texts or [row["text"] for row in rows if row["text"]])[-SAID:]


def told(row: Row) -> str:
    """What was said, with the name of who said it where there is one."""
    return f"{row['speaker']}: {row['text']}" if row["speaker"] else str(row["text"])


def same(tx: Tx, row: Row) -> Row | None:
    """The turn of this store that one of another store is."""
    if row["mark"] and (known := tx.one("turn_by_mark", session_id=row["session_id"], mark=row["mark"])):
        return known
    known = tx.one("turn_by_number", session_id=row["session_id"], number=row["number"])
    return None if known and row["mark"] and known["mark"] else known


def fit_in(tx: Tx, session: Session, row: Row) -> None:
    """A turn of another store: under a number that is free here, and without its text where that was forgotten."""
    if tx.one("turn_by_number", session_id=row["session_id"], number=row["number"]):
        row["number"] = _next(tx, session)
    if not _is_wanted(tx, session, row["prompt_number"], row["role"]):
        row["text"] = None


def is_in_other_session(tx: Tx, report: Report) -> bool:
    """Tell whether the same message stands in another session of the agent: a fork repeats what it came from."""
    mark = report.event_id.removeprefix("transcript-")
    return tx.one("turn_elsewhere", mark=mark, agent=report.agent, content_id=report.content_id) is not None


def prompt_number(tx: Tx, session_id: int, number: int) -> int | None:
    """The prompt that a turn belongs to; None if there is no such turn."""
    row = tx.one("turn_by_number", session_id=session_id, number=number)
    return row["prompt_number"] if row else None


def prompt_number_before(tx: Tx, session_id: int, number: int) -> int:
    """The prompt that the turn before a number belongs to; 0 if there is none."""
    row = tx.one("turn_before", session_id=session_id, number=number)
    return row["prompt_number"] if row else 0


def _next(tx: Tx, session: Session) -> int:
    row = tx.one("turn_next", session_id=session.id)
    return int(row["number"]) if row else 0


def blank(tx: Tx, row: Row) -> int:
    """Take the text out of a turn; its number stays. The chunks that hold it are to be made anew."""
    if row["text"] is None:
        return 0
    remove_words(tx, "turn", row["id"])
    return tx.run("turn_put_text", id=row["id"], text=None)
