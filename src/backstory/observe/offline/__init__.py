"""The offline observer: keeps the statements of a session that matter, without a model or a network.

People and agents say themselves what matters. Each round, the best statements of the session so far are chosen; tool
events are their evidence. What was noted before and is no longer among the best is replaced.
"""

from __future__ import annotations

import asyncio
import math
import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

from backstory.labels import PRINTED
from backstory.model import ClaimMark, Noted, Observation, Reply, Round, Turn
from backstory.observe.offline.acts import Act, mapping
from backstory.observe.offline.commits import Commit, is_commit
from backstory.observe.offline.cues import CUES
from backstory.observe.offline.endings import is_unfinished, rejections
from backstory.observe.offline.evidence import RoundEvidence, UserAnswer, answers_of, changed_rounds, read_evidence
from backstory.observe.offline.prompt import asked
from backstory.observe.offline.select import TITLE, ScoredStatement, choices_of, choose, key_of, says_little, title_of
from backstory.observe.offline.statements import STATEMENTS_REMEMBERED, Statement, statements_of
from backstory.observe.offline.summary import summarize, summarize_so_far
from backstory.observe.offline.text import tidy
from backstory.observe.offline.titles import title_of_changes, type_of
from backstory.observe.offline.truth import only_asks, only_thinks_aloud
from backstory.text import is_same

#: Characters of the facts of an observation, and of one of them, at most.
FACTS = 1200
FACT = 320
NARRATIVE = 600
#: Characters of a fact that a user said, at most.
LONGEST_SAID = 200
#: Characters of the heading over a statement, which is the subtitle of its observation.
SUBTITLE = 80
#: Characters of what is kept of a plan.
PLAN = 500
#: Two facts are the same if this share of the words of the shorter one is in both.
SAME_FACT = 0.9
FILES = 40
#: A fact of the round before or after a title's belongs to it if they share this part of their words, and a fact of any
#: other round if it also has this score and nothing speaks against it.
SHARED = 0.1
GOOD_FACT = -2.5
#: What a fact gains in the order of facts if it has all words of its title.
NEAR = 3.0
#: Facts below this score say nothing worth keeping; if something speaks against them, below the second.
LEAST_FACT = -3.9
LEAST_DOUBTED_FACT = -2.2
#: Claims of earlier rounds below this score are taken out of their summaries.
LEAST_CLAIM = -1.6
#: Smaller changes of the importance of an observation, in percent, are not stored.
CHANGED_IMPORTANCE = 5
#: The importance of what the user chose when the agent asked, and of what only events show.
CHOSEN_IMPORTANCE = 70
EVENTS_IMPORTANCE = 20
_REMARK = re.compile(
    r"(?:files?|functions?|locations?|lines?): |(?:as expected|interesting|hmm|wait|yes|and for)\b|.*[:：]$|"
    r"you(?:'re| are) (?:absolutely )?right (?:that|to|about)\b|"
    r"i (?:can )?(?:now )?(?:see|understand)\b(?!.*`)|`[^`]+:\d[^`]*`$|"
    r"(?:let me|now let me|i'll)\b(?!.*\b(?:revert|because|since)\b)",
    re.IGNORECASE,
)
_MERITS = re.compile(r"^(?:pros?|cons?|benefits?|advantages?|disadvantages?|drawbacks?)\b", re.IGNORECASE)
#: Words that are names and no common words: `test_cart`, `cart.py`, `db3`.
_NAMES = re.compile(r"[A-Za-z][\w.-]*(?:[._]\w|\d)[\w.-]*\w")


async def observe(round: Round) -> Reply:
    """Return what a round meant."""
    return await asyncio.to_thread(tell, round)


def tell(round_: Round) -> Reply:
    """Do the same, for callers that are not async. The same round always gets the same reply."""
    evidence = read_evidence(round_)
    turns = _turns(round_)
    unanswered = round_.prompt_number if is_unfinished(round_) else None
    statements = statements_of(turns, unanswered) if round_.stop else []
    choices = choices_of(statements, changed_rounds(round_, evidence))
    noted = frozenset(key_of(one.title) for one in round_.noted)
    chosen = choose(choices, noted, len({turn.prompt_number for turn in turns}))
    kept = {key_of(one.title): one for one in chosen}
    new = [one for key, one in kept.items() if key not in noted]
    facts = _with_facts(chosen, choices)
    committed = next((one for one in new if CUES["done"].search(one.statement.text)), None)
    observations = [
        _observation(one, facts[one.title], round_, evidence, evidence.commits[-1:] if one is committed else ())
        for one in new
    ]
    observations += [_chosen_by_user(answer) for answer in evidence.answers]
    ours = [one for one in round_.noted if one.prompt_number == round_.prompt_number]
    is_told = bool(new) or any(key_of(one.title) in kept for one in ours)
    if not is_told and (by_events := _by_events(round_, evidence)):
        observations.insert(0, by_events)
    if observations:
        observations[0] = _replacing(observations[0], round_, choices, set(kept))
    if not round_.stop:
        return Reply(tuple(observations), summarize_so_far(round_, evidence))
    summary = summarize(round_, choices, {one.title for one in chosen}, evidence)
    withdrawn = tuple(
        one.statement.text for one in choices if one.score < LEAST_CLAIM and one.statement.source == "last"
    )
    stands = [(one, kept[key_of(one.title)]) for one in round_.noted if key_of(one.title) in kept]
    revised = tuple(now for one, choice in stands if (now := _revised(one, choice, facts[choice.title])) != one)
    return Reply(tuple(observations), summary, revised=revised, withdrawn=withdrawn, carries=("next_steps", "notes"))


def _turns(round_: Round) -> Sequence[Turn]:
    """What was said in the session. The end of the round may bring words that no transcript has told yet."""
    turns = list(round_.turns)
    ours = [turn for turn in turns if turn.prompt_number == round_.prompt_number]
    last = mapping(round_.stop.payload).get("last_assistant_message") if round_.stop else None
    for role, text in (("user", round_.prompt), ("assistant", last)):
        if isinstance(text, str) and text.strip() and not any(turn.role == role for turn in ours):
            turns.append(Turn(0, round_.session_id, 0, round_.prompt_number, role, None, text, "", None))
    # Their stored numbers say when they arrived.
    placed = enumerate(_with_rejections(turns, round_))
    return [turn if turn.number == place else replace(turn, number=place) for place, turn in placed]


def _with_rejections(turns: list[Turn], round_: Round) -> list[Turn]:
    """Add what the user said when rejecting tool uses. It follows the prompt, and is not stored as a turn."""
    at = next((at for at, turn in enumerate(turns, 1) if turn.prompt_number == round_.prompt_number), len(turns))
    said = [
        Turn(0, round_.session_id, 0, round_.prompt_number, "user", None, text, "", None) for text in rejections(round_)
    ]
    return [*turns[:at], *said, *turns[at:]]


def _revised(noted: Noted, choice: ScoredStatement, chosen: Sequence[ScoredStatement]) -> Noted:
    """An earlier observation as the session stands now. Its commit stays."""
    commits = [(ClaimMark.NONE, fact) for fact in noted.facts if is_commit(fact)]
    facts = [*_facts(chosen), *commits]
    now = _importance(choice.score)
    return replace(
        noted,
        mark=choice.mark,
        title=_stored_title(choice),
        facts=tuple(fact for _, fact in facts),
        fact_marks=tuple(mark for mark, _ in facts),
        importance=now if abs(now - noted.importance) >= CHANGED_IMPORTANCE else noted.importance,
    )


def _facts(chosen: Sequence[ScoredStatement]) -> list[tuple[ClaimMark, str]]:
    """Return statements as facts, each after its mark."""
    facts = [(one.mark, tidy(one.fact, FACT - len(PRINTED[one.mark]))) for one in chosen]
    return [(mark, fact) for mark, fact in facts if fact]


def _stored_title(choice: ScoredStatement) -> str:
    return tidy(choice.title, 200)


def _importance(score: float) -> int:
    return round(100 / (1 + math.exp(-score)))


def _with_facts(
    chosen: Sequence[ScoredStatement], choices: Sequence[ScoredStatement]
) -> dict[str, list[ScoredStatement]]:
    """Give each title the statements that belong to it, the near and good ones first: a context has room for few."""
    facts: dict[str, list[ScoredStatement]] = {one.title: [] for one in chosen}
    used = list(chosen)
    following = _following(chosen, choices)
    for title, one in following.items():
        facts[title].append(one)
        used.append(one)
    for one in sorted(choices, key=lambda one: -one.score):
        if (
            not chosen
            or one.score < (LEAST_DOUBTED_FACT if one.is_doubted else LEAST_FACT)
            or not _is_fact(one.statement)
            or any(is_same(one.words, other.words, SAME_FACT) for other in used)
        ):
            continue
        home = max(chosen, key=lambda other: _nearness(one, other))
        room = FACTS - sum(len(fact.statement.text) for fact in facts[home.title])
        if _nearness(one, home) and len(one.statement.text) <= room:
            facts[home.title].append(one)
            used.append(one)

    def order(one: ScoredStatement, fact: ScoredStatement) -> tuple[bool, bool, float]:
        is_aside = bool(fact.mark) or only_asks(fact.statement) or only_thinks_aloud(fact.statement)
        return fact is not following.get(one.title), is_aside, -fact.score - NEAR * _nearness(fact, one)

    return {one.title: sorted(facts[one.title], key=partial(order, one)) for one in chosen}


@lru_cache(STATEMENTS_REMEMBERED)
def _is_fact(statement: Statement) -> bool:
    """Whether a statement claims something: it does not ask, and is no place without a claim, no remark on the work, no
    merit of what was proposed, and not long for what a user said, because most of that is pasted."""
    if only_asks(statement) or says_little(statement.text):
        return False
    is_pasted = statement.source == "prompt" and len(statement.text) > LONGEST_SAID
    is_nameless = statement.source == "between" and bool(CUES["nameless"].search(statement.text))
    is_remark = bool(_REMARK.match(statement.text) or _MERITS.search(statement.heading))
    return not (is_pasted or is_nameless or is_remark)


def _following(chosen: Sequence[ScoredStatement], choices: Sequence[ScoredStatement]) -> dict[str, ScoredStatement]:
    """The sentence after each title: the reason or the outcome often stands there, whatever its own score."""
    at = {(one.statement.turn, one.statement.position): one for one in choices if not one.statement.is_item}
    following: dict[str, ScoredStatement] = {}
    used = list(chosen)
    for one in chosen:
        after = at.get((one.statement.turn, one.statement.position + 1))
        if after is None or one.statement.is_item or after.is_doubted or says_little(after.statement.text):
            continue
        if only_asks(after.statement) or only_thinks_aloud(after.statement):
            continue
        if not any(is_same(after.words, other.words, SAME_FACT) for other in used):
            following[one.title] = after
            used.append(after)
    return following


def _nearness(one: ScoredStatement, other: ScoredStatement) -> float:
    """How much a statement belongs to another: by common words, and by their place. 0 if it does not."""
    shared = len(one.words & other.words) / max(4, min(len(one.words), len(other.words)))
    apart = abs(one.statement.round - other.statement.round)
    if apart:
        is_near = apart == 1 or (one.score > GOOD_FACT and not one.is_doubted)
        return shared if is_near and shared >= SHARED else 0.0
    is_list = bool(one.statement.heading) and one.statement.heading == other.statement.heading
    is_message = one.statement.turn == other.statement.turn
    return 0.1 + shared + 0.1 * is_message + 0.1 * (is_message and is_list)


def _observation(
    choice: ScoredStatement,
    belonging: Sequence[ScoredStatement],
    round_: Round,
    evidence: RoundEvidence,
    commits: Sequence[Commit],
) -> Observation:
    text, heading = choice.statement.text, choice.statement.heading
    facts = [*_facts(belonging), *((ClaimMark.NONE, tidy(str(commit), FACT)) for commit in commits)]
    whole = " ".join([text, *(one.fact for one in belonging)])
    changed = [change.path for change in evidence.changes]
    touched = [path for path in changed if posixpath.basename(path) in whole]
    if not touched and (choice.statement.source == "prompt" or CUES["done"].search(text)):
        touched = changed
    acts = [act for change in evidence.changes if change.path in touched for act in change.acts]
    acts += [act for act in evidence.acts if _is_about(act, whole)]
    read = [act.path for act in evidence.acts if act.verb == "read" and posixpath.basename(act.path) in whole]
    stop = [round_.stop.id] if round_.stop else []
    kind = type_of(text, round_.prompt, bool(touched))
    is_cut = choice.title.endswith("…") or len(choice.fact) > len(choice.title) + 20
    return Observation(
        type="discovery" if choice.mark is ClaimMark.PROPOSED and kind == "decision" else kind,
        title=_stored_title(choice),
        subtitle=tidy(heading, SUBTITLE) if heading and not title_of(choice.statement).startswith(heading) else "",
        narrative=tidy(text, NARRATIVE) if is_cut else "",
        facts=tuple(fact for _, fact in facts),
        concepts=_concepts(choice),
        files_read=tuple(dict.fromkeys(path for path in read if path and path not in touched))[:FILES],
        files_modified=tuple(touched)[:FILES],
        event_ids=tuple(dict.fromkeys([*(act.id for act in acts), *stop])),
        importance=_importance(choice.score),
        mark=choice.mark,
        fact_marks=tuple(mark for mark, _ in facts),
    )


def _is_about(act: Act, text: str) -> bool:
    """Whether a text names something that a command line names, too: a test, a file, an option with a number."""
    return any(word in text for word in _NAMES.findall(act.command[:2000]))


def _concepts(choice: ScoredStatement) -> tuple[str, ...]:
    text = choice.statement.text
    cues = {
        "what-changed": "done",
        "problem-solution": "cause",
        "why-it-exists": "decision",
        "gotcha": "limit",
    }
    concepts = [concept for concept, cue in cues.items() if CUES[cue].search(text)]
    return tuple(concepts) or ("how-it-works",)


def _chosen_by_user(answer: UserAnswer) -> Observation:
    details: list[str] = []
    for detail in answer.details:
        if sum(map(len, details)) + len(detail) <= PLAN:
            details.append(tidy(detail, FACT))
    return Observation(
        type="change" if answer.mark is ClaimMark.PROPOSED else "decision",
        title=tidy(answer.text, TITLE),
        narrative=tidy(answer.text, NARRATIVE) if len(answer.text) > TITLE else "",
        facts=tuple(filter(None, details)),
        concepts=("why-it-exists",),
        event_ids=(answer.event_id,),
        importance=CHOSEN_IMPORTANCE,
        mark=answer.mark,
        fact_marks=(answer.mark,) * len([*filter(None, details)]),
    )


def _by_events(round_: Round, evidence: RoundEvidence) -> Observation | None:
    """Tell a round of which nothing was said by its commit, else by what changed."""
    if not evidence.changes and not evidence.commits:
        return None
    title = str(evidence.commits[-1]) if evidence.commits else title_of_changes(evidence.changes)
    acts = [act for change in evidence.changes for act in change.acts] + [commit.act for commit in evidence.commits]
    purpose = asked(round_.prompt, 200)
    return Observation(
        type=type_of(round_.prompt, round_.prompt, True),
        title=tidy(title, 140),
        narrative=f"Asked: {purpose}" if purpose else "",
        facts=tuple(map(str, (*evidence.commits[-3:-1], *evidence.checks[-2:]))),
        concepts=("what-changed",),
        files_modified=tuple(change.path for change in evidence.changes)[:FILES],
        event_ids=tuple(dict.fromkeys(act.id for act in acts)),
        importance=EVENTS_IMPORTANCE,
    )


def _replacing(first: Observation, round_: Round, choices: Sequence[ScoredStatement], kept: set[str]) -> Observation:
    """Replace what was noted before and lost its place. What events alone told of this round so far is continued; what
    the user chose in it stands."""
    stated = {key_of(one.title) for one in choices}
    chosen = {key_of(_chosen_by_user(answer).title) for answer in answers_of(round_.earlier)}
    lost = [one.id for one in round_.noted if key_of(one.title) in stated - kept]
    ours = (one for one in round_.noted if one.prompt_number == round_.prompt_number)
    so_far = [one.id for one in ours if key_of(one.title) not in stated | kept | chosen]
    return replace(first, replaces=(*lost, *so_far[1:]), continues=so_far[0] if so_far else None)
