"""What was found by words and what was found by meaning, put into one order. Pure: rows in, order out.

Equal weights lose to the better of the two on half of what people ask. So a query is looked at first. The figures here
are few and round; `bench/recall.py` says what they are worth.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from backstory.store.index.hits import Hit

Key = tuple[str, int]  #: kind and id

#: How much meaning counts where words count 1: in general, and where somebody talks of themselves in plain words.
MEANING, MEANING_PERSONAL = 0.6, 3.0
#: How much newer counts, from the oldest that was found to the newest, where somebody talks: of themselves, and of the
#: work under way, which mostly goes on where it was left.
RECENT_PERSONAL, RECENT = 0.1, 0.3
#: What a session's second and third best add to its best.
FURTHER, DEEP = 0.15, 3
#: What was made of the work (observations, summaries, prompts) repeats what was said; so much it adds to it.
MADE = 0.6
#: A reply is long and repeats what was asked: it counts less than the user's own words.
REPLY_IN_SESSION, REPLY = 0.8, 0.6
#: What a turn lends to the one after it and to the one before: an answer need not repeat the question. Those with
#: more letters than this speak for themselves.
LENDS_NEXT, LENDS_BEFORE, LENDS_MEANING, SHORT = 0.4, 0.3, 0.1, 300
#: Who is named in the query is listened to.
SPEAKER = 1.3
#: What the piece that it is in, and its session, add to a turn.
OF_CHUNK, OF_SESSION = 0.15, 0.2
#: How many of the best may change places because one is newer, from which part of the best score on, and how alike
#: what they say must be.
NEWEST, NEAR_BEST, ALIKE = 5, 0.5, 0.2

_CODE = re.compile(r"[a-z][A-Z]|\w_\w|\w/\w|\w\.\w|::|->|`|\(\)|--\w")
_MYSELF = re.compile(r"\b(?:i|i['\u2019](?:m|ve|d|ll)|my|me|mine)\b", re.IGNORECASE)
_TALK = re.compile(
    r"\b(?:i|i['\u2019](?:m|ve|d|ll)|my|me|we|we['\u2019]re|our|us|you|your|let['\u2019]s|please|help)\b", re.IGNORECASE
)
_QUOTED, _DIGIT = re.compile(r'"[^"]*\w[^"]*"'), re.compile(r"\d")
_WORD = re.compile(r"\w+")
#: A longer query is not a few words to look for: somebody tells what is to be done.
LONG = 160


@dataclass(frozen=True, slots=True)
class Look:
    """How a query looks."""

    is_code: bool  #: a name out of code, a path, an option
    is_exact: bool  #: a phrase in quotes, or a single name: what does not have it is not meant
    is_personal: bool  #: somebody asks about themselves, in plain words
    is_talk: bool  #: somebody talks, as to an agent
    words: frozenset[str]

    @property
    def meaning(self) -> float:
        return MEANING_PERSONAL if self.is_personal else MEANING

    @property
    def recency(self) -> float:
        return 0.0 if not self.is_talk else RECENT_PERSONAL if self.is_personal else RECENT


def look_of(query: str) -> Look:
    """Identifiers and paths are looked for by their letters; people's own words stand for what they mean."""
    query = query[:4000]
    is_code = bool(_CODE.search(query))
    is_personal = bool(_MYSELF.search(query)) and not is_code
    is_talk = bool(_TALK.search(query)) or len(query) > LONG
    is_exact = bool(_QUOTED.search(query)) or (len(query.split()) == 1 and (is_code or bool(_DIGIT.search(query))))
    return Look(is_code, is_exact, is_personal, is_talk, frozenset(word.lower() for word in _WORD.findall(query)))


@dataclass(slots=True)
class Candidate:
    """An item, and what speaks for it."""

    kind: str
    id: int
    session_id: int
    at: str
    parts: dict[str, float] = field(default_factory=dict)  #: what each reason adds
    times: dict[str, float] = field(default_factory=dict)  #: what each reason multiplies by
    ranks: dict[str, int] = field(default_factory=dict)  #: from 1, in the lists that have it
    best: Key | None = None  #: of a session: the item that speaks most for it

    @property
    def score(self) -> float:
        made = sum(self.parts.values())
        for each in self.times.values():
            made *= each
        return made

    @property
    def why(self) -> dict[str, dict[str, float]]:
        """The reasons, as they are told."""
        told = {name: {kind: round(value, 4) for kind, value in given.items()} for name, given in self._given()}
        return {name: given for name, given in told.items() if given}

    def _given(self) -> Iterable[tuple[str, Mapping[str, float]]]:
        return (("adds", self.parts), ("times", self.times), ("rank", self.ranks))


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """Where a turn stands, and whose it is."""

    id: int
    session_id: int
    number: int
    role: str
    speaker: str
    length: int
    at: str


@dataclass(frozen=True, slots=True)
class Span:
    """From which turn to which a chunk goes."""

    session_id: int
    first: int
    last: int


def together(words: Sequence[Hit], near: Sequence[Hit], look: Look) -> dict[Key, Candidate]:
    """Both lists as one: each item by how far it is from the best of its list."""
    found: dict[Key, Candidate] = {}
    for name, hits, weight in (("words", words, 1.0), ("meaning", near, look.meaning)):
        top = hits[0].score if hits else 0.0
        for rank, hit in enumerate(hits, 1):
            if top <= 0 or hit.score <= 0:
                break
            item = found.setdefault((hit.kind, hit.item_id), Candidate(hit.kind, hit.item_id, hit.session_id, hit.at))
            item.parts[name] = weight * hit.score / top
            item.ranks[name] = rank
    return found


def ordered(items: Iterable[Candidate]) -> list[Candidate]:
    """Best first; of equals the newer."""
    return sorted(items, key=lambda item: (item.score, item.at, item.id), reverse=True)


def by_session(
    families: Sequence[Mapping[Key, Candidate]], turns: Mapping[int, TurnPlace], look: Look
) -> dict[int, Candidate]:
    """Sessions by the best of what was found in them, a little also by the next best."""
    made: dict[int, Candidate] = {}
    most: dict[int, float] = {}
    for family in families:
        for name in ("words", "meaning"):
            best: dict[int, list[float]] = defaultdict(list)
            for item in family.values():
                part = item.parts.get(name, 0.0)
                if part and item.kind == "turn" and _is_reply(turns.get(item.id)):
                    part *= REPLY_IN_SESSION
                if item.kind not in ("turn", "chunk"):
                    part *= MADE
                if part:
                    best[item.session_id].append(part)
            for session_id, parts in best.items():
                session = made.setdefault(session_id, Candidate("session", session_id, session_id, ""))
                parts.sort(reverse=True)
                added = sum(part * FURTHER**at for at, part in enumerate(parts[:DEEP]))
                session.parts[name] = session.parts.get(name, 0.0) + added
        for item in family.values():
            session = made[item.session_id]
            session.at = max(session.at, item.at)
            for name, rank in item.ranks.items():
                session.ranks[name] = min(rank, session.ranks.get(name, rank))
            if item.score > most.get(item.session_id, 0.0):
                most[item.session_id], session.best = item.score, (item.kind, item.id)
    add_recency(made.values(), look)
    return made


def add_recency(items: Iterable[Candidate], look: Look) -> None:
    """Where somebody talks, the newer the better, by the order in which they came: an hour or a year apart."""
    if not look.is_talk:
        return
    line = sorted(items, key=lambda item: (item.at, item.id))
    top = max((item.score for item in line), default=0.0)
    for place, item in enumerate(line):
        item.parts["recency"] = look.recency * top * place / max(1, len(line) - 1)


def by_turn(
    said: Mapping[Key, Candidate],
    pieces: Mapping[Key, Candidate],
    sessions: Mapping[int, Candidate],
    turns: Sequence[TurnPlace],
    spans: Mapping[int, Span],
    look: Look,
) -> dict[Key, Candidate]:
    """Turns by their own words and meaning, and by what stands around them."""
    at = {(turn.session_id, turn.number): turn for turn in turns}
    made: dict[Key, Candidate] = {}
    for turn in turns:
        item = said.get(("turn", turn.id))
        own = Candidate("turn", turn.id, turn.session_id, turn.at)
        if item:
            own.parts, own.ranks = dict(item.parts), dict(item.ranks)
        lent = _lent(turn, at, said)
        if lent:
            own.parts["neighbours"] = lent
        if own.parts:
            made["turn", turn.id] = own
    _add_pieces(made, at, pieces, spans)
    top = max((session.score for session in sessions.values()), default=0.0) or 1.0
    for turn in turns:
        if own_ := made.get(("turn", turn.id)):
            if turn.session_id in sessions:
                own_.parts["session"] = OF_SESSION * sessions[turn.session_id].score / top
            if turn.speaker and turn.speaker.lower() in look.words:
                own_.times["speaker"] = SPEAKER
            if _is_reply(turn):
                own_.times["reply"] = REPLY
    return made


def _lent(turn: TurnPlace, at: Mapping[tuple[int, int], TurnPlace], said: Mapping[Key, Candidate]) -> float:
    lent = 0.0
    for step, share in ((-1, LENDS_NEXT), (1, LENDS_BEFORE)):
        other = at.get((turn.session_id, turn.number + step))
        if other and (item := said.get(("turn", other.id))):
            lent += share * item.parts.get("words", 0.0) + LENDS_MEANING * item.parts.get("meaning", 0.0)
    return lent * min(1.0, SHORT / max(1, turn.length))


def _add_pieces(
    made: Mapping[Key, Candidate],
    at: Mapping[tuple[int, int], TurnPlace],
    pieces: Mapping[Key, Candidate],
    spans: Mapping[int, Span],
) -> None:
    for (_, number), piece in pieces.items():
        if span := spans.get(number):
            for turn_number in range(span.first, min(span.last, span.first + 50) + 1):
                turn = at.get((span.session_id, turn_number))
                if turn and (own := made.get(("turn", turn.id))):
                    own.parts["chunk"] = own.parts.get("chunk", 0.0) + OF_CHUNK * piece.score


def _is_reply(turn: TurnPlace | None) -> bool:
    """The assistant's; where a conversation has names, nobody is one."""
    return turn is not None and turn.role == "assistant" and not turn.speaker


def newest_first(best: Sequence[Candidate], said: Mapping[int, frozenset[str]]) -> list[Candidate]:
    """Of the best, a newer one goes before older ones that say the like: a fact that changed is asked for as it is now.
    `said` are the words of what speaks most for each."""
    made: list[Candidate] = []
    head = [item for item in best[:NEWEST] if item.score >= NEAR_BEST * best[0].score]
    for item in head:
        places = (
            place
            for place, other in enumerate(made)
            if item.at > other.at and _alike(said.get(item.id), said.get(other.id)) >= ALIKE
        )
        made.insert(next(places, len(made)), item)
    return [*made, *best[len(head) :]]


def _alike(one: frozenset[str] | None, other: frozenset[str] | None) -> float:
    if not one or not other:
        return 0.0
    return len(one & other) / math.sqrt(len(one) * len(other))
