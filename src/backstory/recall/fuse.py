"""Merges the results of full-text search and of vector search into one ranking. Pure functions without I/O.

With equal weights the merged ranking is worse than the better of the two for half of the queries. So the weights depend
on the style of the query. The constants are few and round; `bench/recall.py` measures their effect.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from backstory.store.index.hits import Hit

Key = tuple[str, int]  #: kind and id

#: Weight of vector search, where the weight of full-text search is 1.
MEANING = 0.6
#: The same for a query in which somebody writes about themselves in plain words.
MEANING_PERSONAL = 3.0
#: What the newest item gains over the oldest, as a share of the best score, for a query in conversational language.
#: Work mostly continues where it stopped.
RECENT = 0.36
#: The same for a query in which somebody writes about themselves.
RECENT_PERSONAL = 0.1
#: The same for sessions, for a query that has only words of any task, such as `fix the tests`.
RECENT_BARE = 1.0
#: Factor for each further item of a session after its best one.
FURTHER = 0.15
#: Number of items of a session that count.
DEEP = 3
#: Factor for observations, summaries and prompts in the score of a session, because they repeat the conversation.
MADE = 0.5
#: Factor for a turn of the assistant in the score of a session. A reply is long and repeats the question.
REPLY_IN_SESSION = 0.8
#: Factor for a turn of the assistant among turns.
REPLY = 0.6
#: Share of its full-text score that a turn adds to the next turn, because an answer need not repeat the question.
LENDS_NEXT = 0.4
#: Share of its full-text score that a turn adds to the previous turn.
LENDS_BEFORE = 0.3
#: Share of its vector score that a turn adds to both.
LENDS_MEANING = 0.1
#: Characters. A longer turn gains less from its neighbours.
SHORT = 300
#: Factor for a turn whose speaker the query names.
SPEAKER = 1.3
#: Share of the score of a chunk that is added to each of its turns.
OF_CHUNK = 0.15
#: What the best session adds to each of its turns. Other sessions add less, in proportion to their scores.
OF_SESSION = 0.2

_CODE = re.compile(r"[a-z][A-Z]|\w_\w|\w/\w|\w\.\w|::|->|`|\(\)|--\w")
_MYSELF = re.compile(r"\b(?:i|i['\u2019](?:m|ve|d|ll)|my|me|mine)\b", re.IGNORECASE)
_TALK = re.compile(
    r"\b(?:i|i['\u2019](?:m|ve|d|ll)|my|me|we|we['\u2019]re|our|us|you|your|let['\u2019]s|please|help)\b", re.IGNORECASE
)
#: A question for how something was. Its answer is not the newest statement.
_FORMER = re.compile(
    r"\b(?:first|original(?:ly)?|initial(?:ly)?|at first|before|previous(?:ly)?|former(?:ly)?|used to|earlier|earliest|"
    r"older|oldest|back then|in the beginning|began|ago)\b",
    re.IGNORECASE,
)
#: Such a question asks for the present all the same: `Where does my former colleague work now?`
_CURRENT = re.compile(r"\b(?:currently|now|nowadays|these days|at the moment|still)\b", re.IGNORECASE)
#: Words of any task. A query of such words alone does not say what it is about.
_ANY_TASK = frozenset(
    "a about add added address after again all also an and any applies apply are as at back be been begin branch "  # noqa: SIM905 - a list of words reads as one
    "broken bug bugs build builds but by can carry change changed changes changing check checking checks ci clean "
    "code codebase comment comments commit commits compile complete conflict conflicts continue could current did "
    "do does doing done end error errors everything explain fail failed failing fails failure failures feedback "
    "file files finish finished fix fixed fixes fixing for format from further get give go going good got great had "
    "handle happened has have help here hey hi how i if implement improve in into is issue issues it its just keep "
    "know last latest left let lets like lint local look looking looks main make me merge merged might more move "
    "must my need needs new next no not now of off ok okay on one only open or other our out over part pass passes "
    "passing plan please pr previous problem problems proceed progress project prs pull push read ready rebase redo "
    "refactor remaining remove repo repository request rerun resolve rest resume retry review reviewed reviewer "
    "reviews run running runs same see should show so some something start started status step steps still stop "
    "stuff suggestions sure task tasks tell test testing tests thanks that the their them then there these they "
    "thing things this those to todo todos together too tried try trying understand undo up update updated us use "
    "version want warning warnings was we well were what when where which who why will with work working works "
    "would write yes you your".split()
)
_ADDRESS = re.compile(r"https?://\S+")
_QUOTED = re.compile(r'"[^"]*\w[^"]*"')
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"\w+")
#: Characters. A longer query is a description of a task, not a few search terms.
LONG = 160


@dataclass(frozen=True, slots=True)
class QueryStyle:
    """The style of a query, which determines the weights."""

    is_code: bool  #: contains an identifier, a path or an option
    is_exact: bool  #: a quoted phrase, or a single identifier: results must contain it
    is_personal: bool  #: somebody writes about themselves in plain words
    is_talk: bool  #: conversational language, as in a message to an agent
    is_bare: bool  #: has only words of any task, such as `fix the tests`
    is_former: bool  #: asks for how something was
    words: frozenset[str]

    @property
    def meaning(self) -> float:
        return MEANING_PERSONAL if self.is_personal else MEANING

    @property
    def recency(self) -> float:
        return 0.0 if not self.is_talk or self.is_former else RECENT_PERSONAL if self.is_personal else RECENT


def query_style(query: str) -> QueryStyle:
    """Classify a query. Identifiers and paths favour full-text search; plain words favour vector search."""
    query = query[:4000]
    is_code = bool(_CODE.search(query))
    is_personal = bool(_MYSELF.search(query)) and not is_code
    is_talk = bool(_TALK.search(query)) or len(query) > LONG
    is_exact = bool(_QUOTED.search(query)) or (len(query.split()) == 1 and (is_code or bool(_DIGIT.search(query))))
    words = frozenset(word.lower() for word in _WORD.findall(query))
    plain = {word.lower() for word in _WORD.findall(_ADDRESS.sub(" ", query).replace("'", "")) if not word.isdigit()}
    is_bare = bool(plain) and plain <= _ANY_TASK and not is_exact
    is_former = bool(_FORMER.search(query)) and not _CURRENT.search(query) and len(query) <= LONG
    return QueryStyle(is_code, is_exact, is_personal, is_talk, is_bare, is_former, words)


def remembered_style(query: str) -> QueryStyle:
    """Classify what somebody remembers of a session. `I` and `we` tell nothing there, and it may be long ago."""
    return replace(query_style(query), is_personal=False, is_talk=False, is_bare=False)


@dataclass(slots=True)
class Candidate:
    """A search result and the parts of its score."""

    kind: str
    id: int
    session_id: int
    at: str
    parts: dict[str, float] = field(default_factory=dict)  #: reason -> summand of the score
    times: dict[str, float] = field(default_factory=dict)  #: reason -> factor of the score
    ranks: dict[str, int] = field(default_factory=dict)  #: list -> rank in it, from 1
    best: Key | None = None  #: of a session: its best item

    @property
    def score(self) -> float:
        total = sum(self.parts.values())
        for factor in self.times.values():
            total *= factor
        return total

    @property
    def why(self) -> dict[str, dict[str, float]]:
        """The parts of the score, as the API returns them."""
        groups: dict[str, Mapping[str, float]] = {"adds": self.parts, "times": self.times, "rank": self.ranks}
        return {
            name: {kind: round(value, 4) for kind, value in group.items()} for name, group in groups.items() if group
        }


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """Position, speaker and length of a turn."""

    id: int
    session_id: int
    number: int
    role: str
    speaker: str
    length: int
    at: str


@dataclass(frozen=True, slots=True)
class Span:
    """The first and the last turn of a chunk."""

    session_id: int
    first: int
    last: int


def merge(words: Sequence[Hit], near: Sequence[Hit], style: QueryStyle) -> dict[Key, Candidate]:
    """Merge both lists. The score of an item is relative to the best of its list."""
    merged: dict[Key, Candidate] = {}
    for name, hits, weight in (("words", words, 1.0), ("meaning", near, style.meaning)):
        top = hits[0].score if hits else 0.0
        for rank, hit in enumerate(hits, 1):
            if top <= 0 or hit.score <= 0:
                break
            item = merged.setdefault((hit.kind, hit.item_id), Candidate(hit.kind, hit.item_id, hit.session_id, hit.at))
            item.parts[name] = weight * hit.score / top
            item.ranks[name] = rank
    return merged


def ordered(items: Iterable[Candidate]) -> list[Candidate]:
    """Sort by score, best first. Of equal scores, the newer item comes first."""
    return sorted(items, key=lambda item: (item.score, item.at, item.id), reverse=True)


def by_session(
    families: Sequence[Mapping[Key, Candidate]],
    turns: Mapping[int, TurnPlace],
    further: float = FURTHER,
    deep: int = DEEP,
) -> dict[int, Candidate]:
    """Score sessions by their best items. The second and third best of each add a little."""
    sessions: dict[int, Candidate] = {}
    best_scores: dict[int, float] = {}
    for family in families:
        for name in ("words", "meaning"):
            parts_of: dict[int, list[float]] = defaultdict(list)
            for item in family.values():
                part = item.parts.get(name, 0.0)
                if part and item.kind == "turn" and _is_reply(turns.get(item.id)):
                    part *= REPLY_IN_SESSION
                if item.kind not in ("turn", "chunk"):
                    part *= MADE
                if part:
                    parts_of[item.session_id].append(part)
            for session_id, parts in parts_of.items():
                session = sessions.setdefault(session_id, Candidate("session", session_id, session_id, ""))
                parts.sort(reverse=True)
                added = sum(part * further**index for index, part in enumerate(parts[:deep]))
                session.parts[name] = session.parts.get(name, 0.0) + added
        for item in family.values():
            session = sessions[item.session_id]
            session.at = max(session.at, item.at)
            for name, rank in item.ranks.items():
                session.ranks[name] = min(rank, session.ranks.get(name, rank))
            if item.score > best_scores.get(item.session_id, 0.0):
                best_scores[item.session_id], session.best = item.score, (item.kind, item.id)
    return sessions


def add_recency(items: Iterable[Candidate], most: float) -> None:
    """Raise newer items. Only their order in time counts, not the time between them."""
    if not most:
        return
    by_time = sorted(items, key=lambda item: (item.at, item.id))
    for index, item in enumerate(by_time):
        item.parts["recency"] = most * index / max(1, len(by_time) - 1)


def by_turn(
    turn_hits: Mapping[Key, Candidate],
    chunk_hits: Mapping[Key, Candidate],
    sessions: Mapping[int, Candidate],
    turns: Sequence[TurnPlace],
    spans: Mapping[int, Span],
    style: QueryStyle,
) -> dict[Key, Candidate]:
    """Score turns by their own words and meaning, by their neighbours, and by their chunk and session."""
    by_number = {(turn.session_id, turn.number): turn for turn in turns}
    scored: dict[Key, Candidate] = {}
    for turn in turns:
        item = turn_hits.get(("turn", turn.id))
        own = Candidate("turn", turn.id, turn.session_id, turn.at)
        if item:
            own.parts, own.ranks = dict(item.parts), dict(item.ranks)
        from_neighbours = _from_neighbours(turn, by_number, turn_hits)
        if from_neighbours:
            own.parts["neighbours"] = from_neighbours
        if own.parts:
            scored["turn", turn.id] = own
    _add_chunks(scored, by_number, chunk_hits, spans)
    top = max((session.score for session in sessions.values()), default=0.0) or 1.0
    for turn in turns:
        if ranked := scored.get(("turn", turn.id)):
            if turn.session_id in sessions:
                ranked.parts["session"] = OF_SESSION * sessions[turn.session_id].score / top
            if turn.speaker and turn.speaker.lower() in style.words:
                ranked.times["speaker"] = SPEAKER
            if _is_reply(turn):
                ranked.times["reply"] = REPLY
    return scored


def _from_neighbours(
    turn: TurnPlace, by_number: Mapping[tuple[int, int], TurnPlace], turn_hits: Mapping[Key, Candidate]
) -> float:
    total = 0.0
    for step, share in ((-1, LENDS_NEXT), (1, LENDS_BEFORE)):
        other = by_number.get((turn.session_id, turn.number + step))
        if other and (item := turn_hits.get(("turn", other.id))):
            total += share * item.parts.get("words", 0.0) + LENDS_MEANING * item.parts.get("meaning", 0.0)
    return total * min(1.0, SHORT / max(1, turn.length))


def _add_chunks(
    scored: Mapping[Key, Candidate],
    by_number: Mapping[tuple[int, int], TurnPlace],
    chunk_hits: Mapping[Key, Candidate],
    spans: Mapping[int, Span],
) -> None:
    for (_, number), chunk in chunk_hits.items():
        if span := spans.get(number):
            for turn_number in range(span.first, min(span.last, span.first + 50) + 1):
                turn = by_number.get((span.session_id, turn_number))
                if turn and (own := scored.get(("turn", turn.id))):
                    own.parts["chunk"] = own.parts.get("chunk", 0.0) + OF_CHUNK * chunk.score


def _is_reply(turn: TurnPlace | None) -> bool:
    """Whether a turn is the assistant's. In a conversation with named speakers, none is."""
    return turn is not None and turn.role == "assistant" and not turn.speaker
