"""Reads the marks of stored observations. In earlier versions, titles and facts began with them: they are converted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from backstory.labels import PRINTED
from backstory.model import ClaimMark, Noted
from backstory.store.db import Row, Tx
from backstory.store.payloads import read_or_nothing
from backstory.text import json_list

#: The migration after which the rows of a database are converted.
VERSION = 15
#: Rows that are read at once.
PAGE = 500
#: Words of a text by which it is found in a reply.
FIRST_WORDS = 12
#: The rules made the marks. In what others wrote, such a beginning is a part of the text.
RULES = "offline"
_MARKS = {label: mark for mark, label in PRINTED.items() if label}
_MARK = re.compile("|".join(_MARKS))
_COMMIT = re.compile(r"Commit(?: [0-9a-f]{7,10})?: ")
_WORD = re.compile(r"\w+")


def convert(tx: Tx) -> None:
    """Convert the rows of a database."""
    after = 0
    while rows := tx.all("observations_with_labels", after=after, limit=PAGE):
        for row in rows:
            replies = tx.all("texts_of_replies", session_id=row["session_id"])
            converted(row, " ".join(_words(reply["text"] or "") for reply in replies))
            names = ("id", "mark", "title", "facts", "fact_marks", "observed_json")
            tx.run("observation_mark", **{name: row[name] for name in names})
        after = rows[-1]["id"]


def converted(row: Row, replies: str = "") -> Row:
    """Move the marks of a row into their columns. `replies` are the words of its agent: what it quoted as the user's
    was not said by the user, nor was the subject of a commit."""
    if row["provider"] != RULES:
        return row
    facts = json_list(row["facts"])
    subjects = {_COMMIT.sub("", fact) for fact in facts if _COMMIT.match(fact)}

    def is_quoted(text: str) -> bool:
        words = " ".join(_words(text).split()[:FIRST_WORDS])
        return text.rstrip("…") in "\n".join(subjects) or f" {words} " in f" {replies} "

    mark, title = _split(row["title"], is_quoted)
    split = [_split(fact, is_quoted) for fact in facts]
    if not mark and not any(one for one, _ in split):
        return row
    before = {"title": row["title"], "facts": facts}
    row["mark"], row["title"] = mark, title
    row["facts"] = _json([text for _, text in split])
    row["fact_marks"] = _json([one for one, _ in split]) if any(one for one, _ in split) else "[]"
    for name in {"observed_json", "compressed_observation"} & row.keys():
        observed = read_or_nothing(row[name])
        if observed:
            after = {"title": title, "facts": json_list(row["facts"])}
            row[name] = _json(observed | {key: after[key] for key in after if observed.get(key) == before[key]})
    return row


def as_before(row: Row) -> Row:
    """Return a row as an earlier version wrote it. What was forgotten then is recognised by this."""
    facts = zip(fact_marks(row), json_list(row["facts"]), strict=True)
    before = {
        "title": PRINTED[ClaimMark(row["mark"])] + row["title"],
        "facts": [PRINTED[mark] + fact for mark, fact in facts],
    }
    observed = _json(read_or_nothing(row["compressed_observation"]) | before)
    return row | {"title": before["title"], "facts": _json(before["facts"]), "compressed_observation": observed}


def fact_marks(row: Row) -> tuple[ClaimMark, ...]:
    """Return the mark of each fact of a row. Marks that do not fit the facts count for none of them."""
    facts, marks = json_list(row["facts"]), json_list(row["fact_marks"])
    fits = len(marks) == len(facts) and set(ClaimMark).issuperset(marks)
    return tuple(map(ClaimMark, marks)) if fits else (ClaimMark.NONE,) * len(facts)


def after_edit(row: Row, changes: Row) -> Row:
    """Return the marks of a row after a change of its texts. Nobody has said a text that is new."""
    after: Row = {}
    if changes.get("title", row["title"]) != row["title"]:
        after["mark"] = ClaimMark.NONE
    if "facts" in changes:
        known = dict(zip(json_list(row["facts"]), fact_marks(row), strict=True))
        after["fact_marks"] = [known.get(fact, ClaimMark.NONE) for fact in changes["facts"]]
    return after | {name: changes[name] for name in ("mark", "fact_marks") if name in changes}


def marks_of(row: Row) -> Row:
    """Return the marks of a row as fields of an observation."""
    return {"mark": ClaimMark(row["mark"]), "fact_marks": fact_marks(row)}


def noted_of(row: Row) -> Noted:
    """Return a stored observation as the observer is shown it."""
    known = {name: row[name] for name in ("id", "prompt_number", "title", "importance")}
    return Noted(**known, **marks_of(row), facts=tuple(json_list(row["facts"])))


def _split(text: str, is_quoted: Callable[[str], bool]) -> tuple[ClaimMark, str]:
    found = _MARK.match(text)
    if not found or (_MARKS[found[0]] is ClaimMark.USER and is_quoted(text)):
        return ClaimMark.NONE, text
    return _MARKS[found[0]], text[found.end() :]


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
