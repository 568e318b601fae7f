"""What an engine is asked for, in its own tongue: FTS5's expressions, or PostgreSQL's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backstory.store.index.hits import KINDS, Filter, IndexedItem
from backstory.store.index.tokens import Term, plain

#: Rows that share a mark, so that PostgreSQL, whose index has no order, can be asked for the newest ones.
WINDOW = 4096


@dataclass(frozen=True, slots=True)
class Match:
    """Items with any of these terms, or with every one, that have all of these marks (of each, one of several)."""

    terms: tuple[Term, ...]
    marks: tuple[tuple[str, ...], ...] = ()
    is_every: bool = False
    in_title: bool = False
    after: int = 0  #: rows that are newer than this one


def marks_of(item: IndexedItem) -> tuple[str, ...]:
    """An item's marks: tokens that no text has, since none has a `=`."""
    made = [f"k={item.kind}", f"s={item.session_id}", _mark("a", item.agent)]
    made += [_mark("p", item.project), _mark("p", item.project_key)]
    made += [_mark("t", item.type)] if item.type else []
    made += [_mark("c", concept) for concept in item.concepts]
    for file in item.files:
        parts = _path(file)[-12:]
        made += [_mark("f", "/".join(parts[at:])) for at in range(len(parts))]
    return tuple(dict.fromkeys(made))


def marks_for(kinds: Sequence[str], where: Filter) -> tuple[tuple[str, ...], ...]:
    """The marks that are asked for."""
    asked = [tuple(f"k={kind}" for kind in kinds)] if kinds and not set(kinds) >= set(KINDS) else []
    asked += [(f"s={where.session_id}",)] if where.session_id else []
    for name, value in (("a", where.agent), ("p", where.project), ("t", where.type), ("c", where.concept)):
        asked += [(_mark(name, value),)] if value else []
    asked += [(_mark("f", "/".join(_path(where.file))),)] if where.file else []
    return tuple(asked)


def _path(file: str) -> list[str]:
    return plain(file).casefold().replace("\\", "/").strip("/").split("/")


def _mark(name: str, value: str) -> str:
    """Any text as one token, of a size that does not depend on it."""
    return f"{name}={hashlib.blake2b(value.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def fts5(match: Match) -> str:
    """SQLite's. Its rows are in order: the newest are asked for beside it, by their number."""

    def one(term: Term) -> str:
        return f'"{" ".join(term.tokens)}"{" *" if term.is_prefix else ""}'

    parts = ["(" + " OR ".join(f'"{mark}"' for mark in either) + ")" for either in match.marks]
    if match.terms:
        terms = (" AND " if match.is_every else " OR ").join(map(one, match.terms))
        parts.insert(0, ("{title} : " if match.in_title else "") + f"({terms})")
    return " AND ".join(parts)


def tsquery(match: Match, last: int) -> str:
    """PostgreSQL's. The words of titles have marks of their own, and so have the newest rows, up to the last one."""

    def one(term: Term) -> str:
        head, joint = ("h=", " & ") if match.in_title else ("", " <-> ")
        return "(" + joint.join(f"'{head}{t}'" + (":*" if term.is_prefix else "") for t in term.tokens) + ")"

    parts = ["(" + " | ".join(f"'{mark}'" for mark in either) + ")" for either in match.marks]
    if match.after:
        newest = range(match.after // WINDOW, last // WINDOW + 1)
        parts.append("(" + " | ".join(f"'w={number}'" for number in newest) + ")")
    if match.terms:
        parts.insert(0, "(" + (" & " if match.is_every else " | ").join(map(one, match.terms)) + ")")
    return " & ".join(parts)


def tsvector(title: str, body: str, marks: Iterable[str], number: int) -> str:
    """An item's tokens with their places as PostgreSQL writes them: no rule of its own cuts them up."""
    places: dict[str, list[str]] = {}
    at = 0
    for weight, text in (("A", title), ("B", body)):
        for token in text.split():
            at += 1
            places.setdefault(token, []).append(f"{at}{weight}")
        at += 1  # a phrase does not go on from the title into the body
    told = [f"'{token}':{','.join(where[:256])}" for token, where in places.items()]
    heads = [f"h={token}" for token in dict.fromkeys(title.split())]
    return " ".join((*told, *(f"'{mark}'" for mark in (*heads, *marks, f"w={number // WINDOW}"))))
