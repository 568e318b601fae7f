"""Full-text expressions in the query language of each engine: FTS5 and tsquery.

A mark is a token to filter by, such as the kind or the project of an item. It contains a `=`, which no other token has.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backstory.project import group_of
from backstory.store.index.hits import KINDS, Filter, IndexedItem
from backstory.store.index.tokens import Term, plain

#: Rows that share a mark of their position. PostgreSQL's index has no order, so the newest rows are found by it.
WINDOW = 4096
#: The mark of items that belong to a group.
IN_GROUP = "g=1"
_HASHED = re.compile("[a-z]=[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Match:
    """A condition: any of the terms, or every one, or all of one of the sets. Also each of `also`, and one mark of each
    group."""

    terms: tuple[Term, ...]
    marks: tuple[tuple[str, ...], ...] = ()
    is_every: bool = False
    in_title: bool = False
    after: int = 0  #: only rows after this one
    without: str = ""  #: a mark that the rows do not have
    also: tuple[Term, ...] = ()
    sets: tuple[tuple[Term, ...], ...] = ()

    @property
    def alternatives(self) -> tuple[tuple[Term, ...], ...]:
        """The sets of terms of which one must be there."""
        return self.sets or ((self.terms,) if self.is_every and self.terms else tuple((term,) for term in self.terms))


def marks_of(item: IndexedItem) -> tuple[str, ...]:
    """Return the marks of an item."""
    marks = [f"k={item.kind}", f"s={item.session_id}", _mark("a", item.agent)]
    marks += [_mark("p", item.project), _mark("p", item.project_key)]
    marks += [IN_GROUP] if group_of(item.project_key) else []
    marks += [_mark("t", item.type)] if item.type else []
    marks += [_mark("c", concept) for concept in item.concepts]
    for file in item.files:
        parts = _path(file)[-12:]
        marks += [_mark("f", "/".join(parts[at:])) for at in range(len(parts))]
    return tuple(dict.fromkeys(marks))


def marks_for(kinds: Sequence[str], where: Filter) -> tuple[tuple[str, ...], ...]:
    """Return the groups of marks that a filter requires."""
    groups = [tuple(f"k={kind}" for kind in kinds)] if kinds and not set(kinds) >= set(KINDS) else []
    groups += [(f"s={where.session_id}",)] if where.session_id else []
    for name, value in (("a", where.agent), ("p", where.project), ("t", where.type), ("c", where.concept)):
        groups += [(_mark(name, value),)] if value else []
    groups += [(_mark("f", "/".join(_path(where.file))),)] if where.file else []
    groups += [(IN_GROUP,)] if where.is_in_groups else []
    return tuple(groups)


def _path(file: str) -> list[str]:
    return plain(file).casefold().replace("\\", "/").strip("/").split("/")


def _mark(name: str, value: str) -> str:
    """Return a token of fixed length for any text."""
    return f"{name}={hashlib.blake2b(value.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def pack_marks(marks: str) -> bytes:
    """Return marks as SQLite stores them. A hash is stored as 8 bytes, because its characters cannot be compressed."""
    hashed = [mark for mark in marks.split() if _HASHED.fullmatch(mark)]
    plain = [mark for mark in marks.split() if mark not in hashed]
    return " ".join(plain).encode() + b"\n" + b"".join(mark[0].encode() + bytes.fromhex(mark[2:]) for mark in hashed)


def unpack_marks(stored: bytes) -> str:
    """Return stored marks."""
    plain, _, hashed = stored.partition(b"\n")
    starts = range(0, len(hashed), 9)
    return " ".join([plain.decode(), *(f"{chr(hashed[at])}={hashed[at + 1 : at + 9].hex()}" for at in starts)])


def fts5(match: Match) -> str:
    """Return an expression of FTS5. It ignores `after`, because the query compares row ids itself. FTS5 has no
    expression for rows that only lack a mark, so there must be terms or marks."""

    def one(term: Term) -> str:
        return f'"{" ".join(term.tokens)}"{" *" if term.is_prefix else ""}'

    parts = ["(" + " OR ".join(f'"{mark}"' for mark in either) + ")" for either in match.marks]
    if match.alternatives:
        terms = " OR ".join(f"({' AND '.join(map(one, each))})" for each in match.alternatives)
        parts.insert(0, ("{title} : " if match.in_title else "") + f"({terms})")
    parts += map(one, match.also)
    found = " AND ".join(parts)
    return f'({found}) NOT "{match.without}"' if match.without else found


def tsquery(match: Match, last: int) -> str:
    """Return a tsquery. Words of titles and positions of rows are marks. `last` is the newest row."""

    def one(term: Term) -> str:
        head, joint = ("h=", " & ") if match.in_title else ("", " <-> ")
        return "(" + joint.join(f"'{head}{t}'" + (":*" if term.is_prefix else "") for t in term.tokens) + ")"

    parts = ["(" + " | ".join(f"'{mark}'" for mark in either) + ")" for either in match.marks]
    if match.after:
        newest = range(match.after // WINDOW, last // WINDOW + 1)
        parts.append("(" + " | ".join(f"'w={number}'" for number in newest) + ")")
    if match.alternatives:
        parts.insert(0, "(" + " | ".join(f"({' & '.join(map(one, each))})" for each in match.alternatives) + ")")
    parts += map(one, match.also)
    parts += [f"!'{match.without}'"] if match.without else []
    return " & ".join(parts)


def tsvector(title: str, body: str, marks: Iterable[str], number: int) -> str:
    """Return a tsvector as text, so that PostgreSQL's own rules do not split tokens."""
    places: dict[str, list[str]] = {}
    at = 0
    for weight, text in (("A", title), ("B", body)):
        for token in text.split():
            at += 1
            places.setdefault(token, []).append(f"{at}{weight}")
        at += 1  # a phrase does not continue from the title into the body
    lexemes = [f"'{token}':{','.join(positions[:256])}" for token, positions in places.items()]
    title_marks = [f"h={token}" for token in dict.fromkeys(title.split())]
    return " ".join((*lexemes, *(f"'{mark}'" for mark in (*title_marks, *marks, f"w={number // WINDOW}"))))
