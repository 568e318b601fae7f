"""What still holds and a round may replace: earlier observations of its project that are about the same things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from backstory.model import Round
from backstory.store import sessions
from backstory.store.db import Tx
from backstory.store.index import search, search_rows, tokens
from backstory.store.index.hits import Filter

#: Observations that a model is shown, at most.
MOST = 6
#: Observations that are looked at for each file, and for the round as a whole.
LOOKED_AT = 30
#: Files of a round whose observations are looked at.
FILES = 5
#: What happened stays as it happened; what was decided, set or found out may be so no longer.
HAPPENED = frozenset({"bugfix", "refactor"})
#: The score from which an observation is shown. A word that is in one title only scores 1, a commoner one less.
CLEAR = 1.7
#: The score of a file in common.
SAME_FILE = 1.0
#: Observations. In a smaller memory it is hard to say which words are rare.
FEW = 100


@dataclass(frozen=True, slots=True)
class Standing:
    """An observation that holds, as a model is shown it."""

    id: int
    type: str
    title: str
    words: frozenset[str] = field(repr=False)  #: of its title, as they are indexed


def find(tx: Tx, round: Round, about: str, files: Sequence[str]) -> tuple[Standing, ...]:
    """A handful at the most, the likeliest first; none where nothing clearly concerns the same."""
    session = sessions.by_id(tx, round.session_id)
    if session is None:
        return ()
    here = Filter(project=session.project_key)
    weights = search_rows.token_weights(tx, about, here, FEW)
    scores: dict[int, float] = {}
    for path in (*files[:FILES], ""):  # those of a file count as such, wherever else they are found
        where = Filter(project=here.project, file=path)
        for hit in search.by_words(tx, about, ("observation",), where, LOOKED_AT):
            scores.setdefault(hit.item_id, SAME_FILE if path else 0.0)
    holding = [
        Standing(row["id"], row["type"], row["title"], words_of(row["title"]))
        for row in search_rows.observation_statuses(tx, scores).values()
        if not row["superseded_by"] and row["type"] not in HAPPENED and row["created_at"] < round.events[0].occurred_at
    ]
    for one in holding:
        scores[one.id] += sum(weights.get(word, 0.0) for word in one.words)
    best = sorted(holding, key=lambda one: (-scores[one.id], -one.id))[:MOST]
    return tuple(one for one in best if scores[one.id] >= CLEAR)


def words_of(text: str) -> frozenset[str]:
    """The words of a text as they are indexed, without those that everything has."""
    return frozenset(tokens.of_text(text).split()) - tokens.COMMON
