"""Finds earlier observations that a round may replace, because they are about the same subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from backstory.model import ClaimMark, Round
from backstory.store import observations, sessions
from backstory.store.db import Tx
from backstory.store.index import search, search_rows, tokens, word_index
from backstory.store.index.hits import Filter

#: Observations that a model is shown, at most.
MAX_SHOWN = 6
#: Search results that are read for each file, and for the whole round.
MAX_HITS = 30
#: Files of a round whose observations are searched.
MAX_FILES = 5
#: The score from which on an observation is shown. A word that only one observation has scores 1, others less.
MIN_SCORE = 1.7
#: The score of a common file.
SAME_FILE = 1.0
#: Observations that are assumed at least. In a small memory, no word is known to be common.
MIN_TOTAL = 100


@dataclass(frozen=True, slots=True)
class Standing:
    """An observation that a round may replace."""

    id: int
    type: str
    title: str  #: in full; if it was cut, the narrative that it was cut from
    words: frozenset[str] = field(repr=False)  #: tokens of its title
    mark: ClaimMark = ClaimMark.NONE


def find(tx: Tx, round: Round, about: str, files: Sequence[str]) -> tuple[Standing, ...]:
    """Return a few observations with a high score, best first."""
    session = sessions.by_id(tx, round.session_id)
    if session is None:
        return ()
    here = Filter(project=session.project_key)
    weights = search_rows.token_weights(tx, about, here, MIN_TOTAL)
    scores: dict[int, float] = {}
    counts = word_index.Counts()
    for path in (*files[:MAX_FILES], ""):  # files first, so that `SAME_FILE` counts
        where = Filter(project=here.project, file=path)
        for hit in search.by_words(tx, about, ("observation",), where, MAX_HITS, known=counts):
            scores.setdefault(hit.item_id, SAME_FILE if path else 0.0)
    before = round.events[0].occurred_at
    standing = [
        Standing(row["id"], row["type"], row["title"], words_of(row["title"]), ClaimMark(row["mark"]))
        for row in search_rows.observation_statuses(tx, scores).values()
        if not row["superseded_by"] and row["created_at"] < before
    ]
    for one in standing:
        scores[one.id] += sum(weights.get(word, 0.0) for word in one.words)
    best = sorted(standing, key=lambda one: (-scores[one.id], -one.id))[:MAX_SHOWN]
    return tuple(_in_full(tx, one) for one in best if scores[one.id] >= MIN_SCORE)


def _in_full(tx: Tx, one: Standing) -> Standing:
    row = observations.by_id(tx, one.id) if one.title.endswith("…") else None
    return replace(one, title=row["narrative"]) if row and row["narrative"] else one


def words_of(text: str) -> frozenset[str]:
    """Return the tokens of a text, without the commonest."""
    return frozenset(tokens.of_text(text).split()) - tokens.COMMON
