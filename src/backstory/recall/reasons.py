"""Why a search result was found, in words: which words it has, its meaning, or a filter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from backstory.store.db import Row
from backstory.store.index import tokens
from backstory.store.index.hits import Filter

#: Words of a result that are listed, at most.
MAX_TERMS = 20
_WORD = re.compile(r"\w+")
#: Part of a score -> why it counts.
_REASONS = {
    "branch": "is of this branch",
    "date": "is of that date",
    "file": "is about a file with uncommitted changes",
}


def terms(query: str, text: str) -> list[str]:
    """Return the words of a text that match a query, as the text has them."""
    asked = tokens.of_query(query)
    wanted = {token for term in asked if not term.is_prefix for token in term.tokens}
    prefixes = tuple(token for term in asked if term.is_prefix for token in term.tokens)
    found: dict[str, str] = {}
    for word in _WORD.findall(text):
        own = tokens.of_text(word).split()
        is_match = not wanted.isdisjoint(own) or (prefixes and any(token.startswith(prefixes) for token in own))
        if is_match:
            found.setdefault(word.casefold(), word)
    return list(found.values())[:MAX_TERMS]


def is_changed(row: Row, file: str) -> bool:
    """Whether an observation changed a file."""
    return any(path.casefold().endswith(file.casefold()) for path in json.loads(row.get("files_modified") or "[]"))


def of_result(
    row: Row, source: Row, parts: dict[str, float], query: str, where: Filter, matched: list[str]
) -> Iterator[str]:
    """Yield the reasons for a result, the most telling first. `source` is the row whose text was found."""
    if "words" in parts:
        yield f"has {', '.join(matched)}" if matched else "what was said around it has these words"
    if "meaning" in parts:
        yield "means something similar"
    for part, reason in _REASONS.items():
        if part in parts:
            yield reason
    if where.file:
        yield f"changed {where.file}" if is_changed(source, where.file) else f"is about {where.file}"
    if row.get("pinned_at"):
        yield "pinned"
    if row.get("superseded_by"):
        yield "replaced, so it comes later" if query.strip() else "replaced"
