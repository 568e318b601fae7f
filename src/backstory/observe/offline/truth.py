"""Doubts: what speaks against a statement once the session has gone on.

Something false is worse than something missing. A statement loses score if the user objects to it, if a later round
undoes what it names, or if it was only a guess, a suggestion, a plan or a failure on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from backstory.observe.offline.cues import CUES
from backstory.observe.offline.statements import OPEN_HEADING, STATEMENTS_REMEMBERED, Statement

#: What a score loses if the next prompt objects to the round.
OBJECTED = 3.0
#: What it loses if a later round says that something it names was removed, undone or wrong.
OVERTURNED = 2.5
#: What a suggestion or an open end loses when the session has gone on.
SUGGESTED = 2.5
#: What a plan between tool uses loses: the edits tell whether it was carried out.
PLANNED = 1.5
GUESSED = 0.5
#: What the report of a failure or of another state loses if work went on after it: it was about to change.
CHANGED_SINCE = 2.5
#: What a problem loses that a later message tells as mended.
MENDED = 2.5
#: What a proposal loses whose message ends by asking whether to carry it out.
OFFERED = 1.5

_OBJECTS = re.compile(
    r"^(?:no\b|nope|wait|hmm|but\b|why\b|that'?s (?:not|wrong)|this is (?:not|wrong)|not (?:quite|really|true)|still\b|"
    r"revert|undo|actually|are you sure|i don'?t (?:think|agree|like)|sorry\b|i'?m questioning|"
    r"(?:nein|aber|warum|falsch)\b|(?:pero|por qué)\b|不|为什么|いや|違|なぜ)|"
    r"\b(?:remove .{0,40}again|(?:is|are|keeps?) failing|revert|undo|roll(?:ed)? back|wrong|doesn'?t work|not working|"
    r"still (?:see|get|fail|broken|not))\b",
    re.IGNORECASE,
)
_SUGGESTS = re.compile(
    r"\b(?:suggest\w*|recommend\w*|options?\b|approach [0-9A-C]\b|should (?:be|likely|probably|also)|"
    r"could (?:use|be|also)|i'?d (?:lean|go|suggest)|consider|would be|one idea|alternatively|vorschlag|sugerencia)|"
    r"建议|提案",
    re.IGNORECASE,
)
#: Proposals that cannot be reports. `The recommended way is X` may be one, and is left out.
_PROPOSES = re.compile(
    r"\b(?:i(?:'d| would)? (?:suggest|recommend|propose|lean|go with)|my (?:suggestion|recommendation|proposal)|"
    r"(?:option|approach) [0-9A-C]\b|should (?:likely|probably|also)|alternatively|one idea)\b|"
    r"vorschlag|sugerencia|建议|提案",
    re.IGNORECASE,
)
#: What would be if a proposal were carried out.
_IMAGINED = re.compile(r"\b(?:we|you|it|this|that|callers?|users?|i)(?:'d| would| could)\b", re.IGNORECASE)
#: A state that work is about to change.
_STATE = re.compile(
    r"\b(?:current(?:ly)?|(?:the|this) (?:actual |real )?(?:issue|problem|bug) (?:is|might)|duplicates|remaining|"
    r"(?:is|are)(?:n'?t| not| never) (?:being )?\w+ed|is (?:missing|broken|hardcoded)|conflicts? with|needs? to|"
    r"fails?|failing|failures?|errors? out|crashes)\b|schlägt fehl|falla\b|失败|失敗",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"\b(?:want me to|should i|shall i|would you like(?: me)? to|ready to|like me to)\b.*"
    r"\b(?:implement|proceed|make|add|start|change|fix|refactor|go ahead|apply|update|create|write)",
    re.IGNORECASE,
)
_UNDONE = re.compile(
    r"\b(?:remov|delet|revert|undo|undid|dropp?|abandon|discard|roll(?:ed)? back|no longer|wrong|incorrect|mistake|"
    r"not needed|instead|renam|replac|entfernt|rückgängig|falsch|elimin)|删除|撤销|错误|削除|取り消|間違",
    re.IGNORECASE,
)
#: A problem as it stands, and words by which it is over.
_PROBLEM = re.compile(
    r"\b(?:issue|problem|bug|root cause|wrong|missing|broken|incorrect\w*|errors?|fails?|failing|mismatch|"
    r"(?:is|are|does|do|has|have|can)(?:n'?t| not)|cannot|never|only \w+s|"
    r"needs? updating|prevents?|lacks?|duplicates?|confusing)\b",
    re.IGNORECASE,
)
_OVER = re.compile(
    r"\b(?:was|were|had|did(?:n'?t)?|fixed|now|no longer|used to|previously|instead|so that)\b", re.IGNORECASE
)
#: Not among the cues of `done`, for which the weights of the ranking were fitted.
_MODIFIED = re.compile(r"\bmodified\b", re.IGNORECASE)
_REQUEST = re.compile(
    r"(?:(?:please|now|also|then|and|ok(?:ay)?|yes|great|can you|could you|let'?s|we need to|"
    r"you (?:should|can|need to)|i(?:'d| would) like(?: you)? to|i want(?: you)? to)[\s,]+)*"
    r"(?:add|fix|write|update|create|run|check|look|implement|rename|commit|push|review|refactor|clean|"
    r"move|test|try|continue|go ahead|integrate|extract|give|show|tell|explain|help|find|open|rebase|merge|read|"
    r"bitte|füge|agrega|añade)\b|"
    r"i (?:just |only )?(?:wonder|get|got|see|noticed|tried|ran|messed|checked|looked)\b|"
    r"i(?:'d| would) like\b|i(?:'ve| have) (?:noticed|seen)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"`[^`]{3,}`|\b(?:[a-z]+[A-Z]\w+|[A-Z][a-z]+[A-Z]\w+|\w+_\w+)")
#: The word before an open end that says that it is one.
OPEN_LABEL = re.compile(
    r"^(?:next(?: steps?)?|to-?do|still to do|follow-?ups?|remaining(?: work)?|what remains|open(?: points?)?|left)"
    r"\s*[:：]\s*",
    re.IGNORECASE,
)
_LEFT_OPEN = re.compile(
    r"\b(?:not (?:yet|been (?:done|tested|committed|implemented|fixed))|"
    r"have(?:n'?t| not)(?: yet)? \w+(?:ed|n|t)\b.*\byet|(?:is|are)(?: still)? (?:pending|missing|untested|unresolved)|"
    r"still (?:needs?|to be|open|fail\w*|missing|requires?)|remains? (?:to be|open|unclear|unresolved)|"
    r"remaining (?:change|work|step|task|issue|item)s?|once you|you(?:'ll| will)? (?:still )?(?:need|have) to|"
    r"ready (?:to|for) (?:commit|push|review|merge)|before (?:merging|releasing|deploying)|left (?:to do|open)|"
    r"noch (?:nicht|offen|zu)|fehlt noch|pendiente|falta)\b|尚未|还需要|まだ|未対応|아직",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"(?:(?:question|ok(?:ay)?|and|so|but|also|hmm|yeah|yes|no)\b[\s:,.-]*)*(?:how|what|why|when|where|which|who|can|could|is|"
    r"are|does|do|did|should|would|will|any idea|was|were|wie|was ist|warum|kannst|wann|cómo|qué|puedes)\b",
    re.IGNORECASE,
)
_ALOUD = re.compile(
    r"(?:(?:good|great|perfect|ok(?:ay)?|hmm|wait|so|now|actually|interesting|you're right)\b[\s,.!:–—-]*)*"
    r"(?:let(?:'s| me| us)\b|i (?:see|notice|need to|should|think|want to|have to|can see)\b|"
    r"i(?:'ll|'d like| will|'m going)\b|looking at|checking|lass mich|ich sehe|veo que|déjame)",
    re.IGNORECASE,
)
_SEES = re.compile(r"(?:\w+[\s,.!:–—-]+){0,3}i (?:can )?see\b", re.IGNORECASE)
_COURTESY = re.compile(r"let me know if|feel free|happy to help|any (?:other )?questions|anything else", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a statement says, wherever it stands in its session."""

    names: frozenset[str]
    undoes: bool
    closes: bool  #: it closes a round with what was done
    offers: bool
    is_proposed: bool
    is_idea: bool  #: a suggestion or an open end
    is_state: bool  #: that work is about to change
    is_plan: bool
    is_guess: bool
    is_problem: bool
    has_cause: bool
    is_done: bool


@lru_cache(STATEMENTS_REMEMBERED)
def _claim_of(statement: Statement) -> _Claim:
    text, is_last = statement.text, statement.source == "last"
    is_done = bool(CUES["done"].search(text))
    return _Claim(
        names=frozenset(name.strip("`()").rsplit("/", 1)[-1] for name in _NAME.findall(text)),
        undoes=bool(_UNDONE.search(text)),
        closes=is_last and (is_done or bool(_MODIFIED.search(text))),
        offers=is_last and bool(_OFFER.search(text)),
        is_proposed=bool(_PROPOSES.search(text) or _SUGGESTS.search(statement.heading)),
        is_idea=is_open(statement) or bool(_SUGGESTS.search(text) or _SUGGESTS.search(statement.heading)),
        is_state=bool(_STATE.search(text)),
        is_plan=statement.source == "between" and bool(CUES["plan"].search(text)),
        is_guess=bool(CUES["guess"].search(text)),
        is_problem=bool(_PROBLEM.search(text)) and not _OVER.search(text),
        has_cause=bool(CUES["cause"].search(text)),
        is_done=is_done,
    )


class Doubts:
    """What a whole session says against its statements."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self.final = max((one.round for one in statements), default=0)
        self.objected = objected_rounds(statements)
        self._offers: set[int] = set()
        self._undone: dict[str, int] = {}  #: a name -> the last round that says that it is gone
        self._mended: dict[str, int] = {}  #: a name -> the last message that closes with what was done about it
        for one in statements:
            claim = _claim_of(one)
            if claim.offers:
                self._offers.add(one.turn)
            if claim.undoes:
                self._undone |= dict.fromkeys(claim.names, one.round)
            if claim.closes:
                self._mended |= dict.fromkeys(claim.names, one.turn)

    def is_proposed(self, statement: Statement) -> bool:
        """Whether an agent offers or imagines this, and does not say that it was done or why something is as it is."""
        claim = _claim_of(statement)
        is_offered = statement.source == "last" and (statement.turn in self._offers or claim.is_proposed)
        is_imagined = statement.source != "prompt" and bool(_IMAGINED.search(statement.text))
        return (is_offered or is_imagined) and not (claim.is_done or claim.has_cause)

    def of(self, statement: Statement) -> float:
        """Return what the score of a statement loses."""
        claim, is_past = _claim_of(statement), statement.round < self.final
        # A cause that closes a round is of use after it was mended.
        is_on_the_way = statement.source == "between" or (
            is_past and statement.source == "last" and not claim.has_cause
        )
        return sum(
            loss
            for loss, doubt in (
                (OBJECTED, statement.round in self.objected and statement.source != "prompt"),
                (SUGGESTED, is_past and claim.is_idea),
                (CHANGED_SINCE, is_on_the_way and claim.is_state),
                (OFFERED, statement.turn in self._offers and not (claim.is_done or claim.has_cause)),
                (GUESSED, claim.is_guess),
                (PLANNED, claim.is_plan),
                (OVERTURNED, not claim.undoes and _is_after(self._undone, claim, statement.round)),
                (MENDED, claim.is_problem and _is_after(self._mended, claim, statement.turn)),
            )
            if doubt
        )


def _is_after(told: Mapping[str, int], claim: _Claim, place: int) -> bool:
    """Whether one of the names of a claim was told later."""
    return any(told.get(name, 0) > place for name in claim.names)


def objected_rounds(statements: Iterable[Statement]) -> set[int]:
    """Return the rounds whose answer the next prompt objects to."""
    prompts: dict[int, str] = {}
    turns: dict[int, int] = {}  #: round -> its prompt; what the user says later in a round is about that round
    for one in statements:
        if one.source == "prompt" and one.turn == turns.setdefault(one.round, one.turn):
            prompts[one.round] = f"{prompts.get(one.round, '')} {one.text}".strip()[:400]
    return {number - 1 for number, text in prompts.items() if _OBJECTS.search(text)}


def is_question(text: str) -> bool:
    return text.endswith(("?", "？"))


def only_asks(statement: Statement) -> bool:
    """Whether a statement is a question, also without its mark: `can you look at the tests`."""
    return is_question(statement.text) or (statement.source == "prompt" and bool(_ASKS.match(statement.text)))


def only_requests(statement: Statement) -> bool:
    """Whether the user asks for work or tells what is wrong, and nothing that holds after it: `Add a test for this`."""
    text = statement.text
    if statement.source != "prompt" or not _REQUEST.match(text):
        return False
    return not any(CUES[cue].search(text) for cue in ("limit", "decision", "cause"))


def only_thinks_aloud(statement: Statement) -> bool:
    """Whether an agent says this to itself while it works: `Let me look at the tests`."""
    if statement.source == "prompt" or not _ALOUD.match(statement.text):
        return False
    return not (_SEES.match(statement.text) and CUES["cause"].search(statement.text))


@lru_cache(STATEMENTS_REMEMBERED)
def is_open(statement: Statement) -> bool:
    """Whether the end of a round leaves this to be done or answered."""
    text = statement.text
    if statement.source != "last" or _COURTESY.search(text):
        return False
    if OPEN_HEADING.search(f"{statement.heading} | {statement.label}") or OPEN_LABEL.match(text):
        return True
    if is_question(text):
        return statement.position == statement.count - 1
    return bool(_LEFT_OPEN.search(text))
