"""Chooses the statements of a session that are kept: the best ones that fit, and none that a later one overturns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from backstory.labels import PRINTED
from backstory.model import ClaimMark
from backstory.observe.offline.cues import CUES
from backstory.observe.offline.rank import score_all, width
from backstory.observe.offline.statements import OPEN_HEADING, STATEMENTS_REMEMBERED, Statement
from backstory.observe.offline.text import clip
from backstory.observe.offline.truth import (
    OPEN_LABEL,
    Doubts,
    is_open,
    is_question,
    only_asks,
    only_requests,
    only_thinks_aloud,
)
from backstory.text import is_same, words_of

#: Characters of a title, at most.
TITLE = 140
#: Characters of titles that the first round of a session may leave; `GROWTH` says how this grows with more rounds.
TITLES = 640
GROWTH = 0.15
#: Statements of fewer characters say too little.
SHORTEST = 25
#: Asides stay where fewer characters would be left: `Update only the fields (name, price)`.
SHORTEST_CUT = 60
#: A title needs this much beside code and paths: `cart.py` alone, or `Before: x = 1`, tells nothing.
SHORTEST_PROSE = 16
#: An open end may be shorter: `run the tests`.
SHORTEST_OPEN = 9
#: A shorter statement that tests pass says nothing else.
LONGEST_STATUS = 90
#: Characters by which a title is known again: what follows may be cut.
KEY = 100
#: Two statements are about the same if this share of the words of the shorter one is in both.
SAME = 0.4
#: What a statement gains that was kept before, so that the memory does not change for little.
KEPT = 0.3
#: What a title loses that begins with `it` or another word for something that is named elsewhere.
NAMELESS = 2.0
#: How much a longer title must say more. 0 ignores the length.
LENGTH = 0.7
#: Scores below this say nothing worth keeping; if something speaks against a statement, scores below the second.
LEAST = -2.0
LEAST_DOUBTED = -1.6
#: Where a whole session is said in few plain words, its best statements are kept: those that score this much less.
NEAR_BEST = 1.5

_OPENING = re.compile(
    r"^(?:(?:ok(?:ay)?|so|now|also|but|and|however)\b(?! that\b)[\s,.!:–—-]*|"
    r"(?:yes|no|good|great|perfect|done|sure|excellent|exactly|confirmed|"
    r"found it|got it|interesting|right|indeed|you(?:'re| are) (?:absolutely |totally |quite )?(?:right|correct)|"
    r"(?:good|great|excellent|nice) (?:catch|point|question|idea|news|call|insight|feedback|suggestion))"
    r"(?:\s*[,.!:–—]+\s*|\s+-\s+))+(?=\S)",
    re.IGNORECASE,
)
_I_HAVE = re.compile(r"^I(?:'ve| have) (?:also |now |successfully |completely )?(?!not\b)(?=\w+(?:ed|t|n)\b)")
_SOMETHING_FIXED = re.compile(
    r"(?:(?:i|we)(?:'ve| have)? )?(?:just |also |now |successfully |found and )*(?:fixed|addressed|resolved) "
    r"(?:exactly |all |both |one )?(?:of )?(?:the|this|that|these|those|all|both|additional|your)?(?: \w+){0,3} ?"
    r"(?:issues?|bugs?|problems?|errors?|comments?|findings?)\b(?!.*`)|"
    r"(?:all|both)(?: \w+){1,3} (?:are |have been )?(?:now )?(?:fixed|addressed|resolved|complete[d]?|done)\b(?!.*`)",
    re.IGNORECASE,
)
#: Praise of the work, or what the user may try now.
_CLOSES_POLITELY = re.compile(
    r"(?:the |this |your )?(?:\w+ )?"
    r"(?:code|implementation|refactor\w*|change|feature|branch|fix|work|solution|plan|cleanup|pr)s? "
    r"(?:is|are|has|looks?|should)(?: now| be)* (?:much )?"
    r"(?:clean\w*|complete[d]?|done|ready|working|fully|good|simpler|no outstanding|in place|consistent|solid|more )|"
    r"you (?:can|should)(?: now| also)* (?:re-?)?(?:test|try|build|run|check|see|start)\b|"
    r"(?:try|rebuild|re-?run)\b|when you (?:re-?)?run\b|this time (?:we|you)\b|"
    r"run `[^`]*` (?:to|and) (?:test|see|check|verify)\b|(?:either|both) (?:approach|option|way)s?\b",
    re.IGNORECASE,
)
_VERIFIES = re.compile(r"(?:`?\w+`?\s*[-–—:]\s*)?(?:verif(?:y|ies)|checks that|tests that)\b", re.IGNORECASE)
_ASIDE = re.compile(r"\s\((?![^)]*`)[^)]{12,}\)")
#: One half of a comparison, or what something looks like: `Before: x = 1`
_SHOWS = re.compile(r"(?:before|old|example|usage|format|output)\b[^:]{0,20}: ", re.IGNORECASE)
#: A number in a list that is not told with it: `#1 and #2 are done`
_REFERS = re.compile(r"(?:^|\s)#\d\b")
#: What a user reports as broken, which is asked for and hardly holds afterwards.
_ERROR = re.compile(
    r"\b(?:error|exception|panic|traceback|exit status|fail(?:s|ed|ing)?|rejected with|cannot find|not found|undefined|"
    r"invalid|warning)\b",
    re.IGNORECASE,
)
#: Headings whose items say the opposite without them: `Removed`.
_TELLING_HEADING = re.compile(
    r"^(?:removed?|deleted?|dropped|before|old|previously|unchanged|rejected|plan(?:ned)?|proposed|not \w+)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ScoredStatement:
    """A statement with its title and its score."""

    statement: Statement
    title: str
    score: float
    is_doubted: bool  #: something speaks against it
    words: frozenset[str]  #: of its text and its title, which may begin with its heading
    mark: ClaimMark = ClaimMark.NONE

    @property
    def fact(self) -> str:
        return said_of(self.statement)

    @property
    def length(self) -> int:
        """The characters of the title, with its label."""
        return len(PRINTED[self.mark]) + len(self.title)


def choices_of(statements: Sequence[Statement], changed: frozenset[int] = frozenset()) -> list[ScoredStatement]:
    """Return what could be kept of a session in which these rounds changed files. Scores are lower for what may not be
    true."""
    doubts = Doubts(statements)
    last_change = max(changed, default=0)
    choices = []
    for one, score in zip(statements, score_all(statements, changed), strict=True):
        is_answered = is_question(one.text) and (one.source != "last" or one.round != doubts.final)
        if not is_answered and not one.is_quoted and _says_something(one):
            has_later_work = one.source == "between" or one.round < last_change
            mark = ClaimMark.USER if one.source == "prompt" else ClaimMark.EARLIER if has_later_work else ClaimMark.NONE
            mark = ClaimMark.PROPOSED if one.is_planned or doubts.is_proposed(one) else mark
            doubt, title = doubts.of(one), title_of(one, mark)
            words = words_of(one.text) | words_of(title)
            choices.append(ScoredStatement(one, title, score - doubt, doubt > 0, words, mark))
    return choices


@lru_cache(STATEMENTS_REMEMBERED)
def _says_something(statement: Statement) -> bool:
    """Whether a statement is long enough, does more than announce, and was not pasted."""
    only_announces = statement.text.endswith((":", "：", " -", " –", " —"))
    is_long = width(statement.text) >= (SHORTEST_OPEN if is_open(statement) else SHORTEST)
    return is_long and not only_announces and not (statement.source == "prompt" and is_pasted(statement.text))


def choose(choices: Iterable[ScoredStatement], kept: frozenset[str], rounds: int) -> list[ScoredStatement]:
    """Return the best choices that fit, best first. `kept` are the keys of the titles that were chosen before."""
    room = TITLES * max(rounds, 1) ** GROWTH
    chosen: list[ScoredStatement] = []
    fitting = [one for one in choices if _is_memory(one.statement)]
    least = min(LEAST, max((one.score for one in fitting), default=0.0) - NEAR_BEST)
    for one in sorted(fitting, key=lambda one: -_worth(one, key_of(one.title) in kept)):
        if one.score < (LEAST_DOUBTED if one.is_doubted else least):
            continue
        if one.length <= room and not any(is_same(one.words, other.words, SAME) for other in chosen):
            chosen.append(one)
            room -= one.length
    return chosen


@lru_cache(STATEMENTS_REMEMBERED)
def _is_memory(statement: Statement) -> bool:
    """Whether a statement can stand as an observation. Questions and next steps are told as open ends."""
    if only_asks(statement) or only_requests(statement) or only_thinks_aloud(statement):
        return False
    if OPEN_LABEL.match(statement.text) or OPEN_HEADING.search(statement.label):
        return False
    if says_little(statement.text) or _SHOWS.match(statement.text) or _REFERS.search(statement.text):
        return False
    if statement.source == "prompt" and _ERROR.search(statement.text):
        return any(CUES[cue].search(statement.text) for cue in ("decision", "wish"))
    return bool(statement.heading) or _prose(statement.text) >= SHORTEST_PROSE


def says_little(text: str) -> bool:
    """Whether a statement only says that tests pass, what a test verifies, or that something was fixed."""
    return bool(_VERIFIES.match(text) or _SOMETHING_FIXED.match(text) or _CLOSES_POLITELY.match(text)) or (
        bool(CUES["status"].search(text)) and width(text) < LONGEST_STATUS
    )


def _prose(text: str) -> int:
    """How much a text says beside names of code, files and numbers."""
    return width("".join(_PROSE.findall(_CODE.sub("", text))))


def _worth(choice: ScoredStatement, is_kept: bool) -> float:
    """How likely a title tells something, for its length."""
    said = choice.title
    score = choice.score + (KEPT if is_kept else 0) - (NAMELESS if CUES["nameless"].search(said) else 0)
    likely = 1 / (1 + math.exp(-score))
    return float(likely / (len(said) + 20) ** LENGTH)


def said_of(statement: Statement) -> str:
    """Return the text of a statement without a filler at its beginning."""
    text = _OPENING.sub("", statement.text)
    return text[:1].upper() + text[1:] if width(text) >= SHORTEST and text != statement.text else statement.text


def key_of(title: str) -> str:
    """Return by what a title is known again."""
    return title[:KEY]


@lru_cache(STATEMENTS_REMEMBERED)
def title_of(statement: Statement, mark: ClaimMark = ClaimMark.NONE) -> str:
    """Return a statement as a title that fits after its label: without a filler at its beginning and without asides."""
    return clip(_shortened(statement), TITLE - len(PRINTED[mark]))


def _shortened(statement: Statement) -> str:
    if statement.heading and (_prose(statement.text) < SHORTEST_PROSE or _lacks_subject(statement)):
        return f"{statement.heading}: {statement.text.rstrip('.')}"
    text = said_of(statement)
    short = _ASIDE.sub("", text)
    text = short if len(short) >= SHORTEST_CUT and '"' not in text else text  # what is quoted is not shortened
    text = _I_HAVE.sub("", text).strip().lstrip("✅✓✔❌ ").rstrip(".")
    return text[:1].upper() + text[1:]


def _lacks_subject(statement: Statement) -> bool:
    """Whether the heading names what a statement is about: `Returns the cached rows`."""
    return statement.is_item and bool(
        CUES["bare verb"].search(statement.text) or _TELLING_HEADING.search(statement.heading)
    )


_CODE = re.compile(r"`[^`]{0,200}`")
#: Words that are no names of code, files or symbols.
_PROSE = re.compile(r"(?<![\w./:#-])[^\W\d_]{2,}(?!\w|[./#:-]\w|\()")
_SYMBOLS = frozenset("{}();=<>[]|\\+%$&*⨯•│")
_LOG = re.compile(r"^\S+:\d+:\d+|^[b-hj-z] |^\$ |^❯|^[A-Z]+ \d{4}-|^(?://|\+\s|-\s)|^\S+=\S+ ")


def is_pasted(text: str) -> bool:
    """Whether this is code, a log or a shell that somebody pasted into a prompt."""
    sample = _CODE.sub("", text[:300])
    return bool(_LOG.match(sample)) or (len(sample) > 12 and sum(x in _SYMBOLS for x in sample) > 0.05 * len(sample))
