"""The summary of a round: what was asked, learned and done, and what is open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from backstory.model import NOT_COMMITTED, Round, Summary
from backstory.observe.offline.cues import CUES
from backstory.observe.offline.endings import ending_of
from backstory.observe.offline.evidence import RoundEvidence
from backstory.observe.offline.prompt import asked
from backstory.observe.offline.rank import width
from backstory.observe.offline.select import SAME, ScoredStatement
from backstory.observe.offline.statements import Statement
from backstory.observe.offline.text import joined, tidy
from backstory.observe.offline.truth import OPEN_LABEL, is_open
from backstory.text import is_same

#: Characters of each field, at most.
REQUEST = 240
LEARNED = 240
COMPLETED = 360
OPEN = 420
NOTES = 160
#: Files that are named as not committed, at most.
LOOSE = 6
_MORE = re.compile(r" and \d+ more$")
#: Open ends of earlier rounds that a summary repeats, at most.
CARRIED = 3

#: Statements that say themselves that they must be remembered.
_MARKED = re.compile(
    r"^(?:(?:important|note|caveat|warning|decided|decision|beware|remember|gotcha|wichtig|achtung|hinweis|entschieden|"
    r"entscheidung|importante|nota|atención|decidido|attention|décision)\s*[:：]|note that\b|we agreed\b|"
    r"(?:注意|重要|决定|決定)[:：]?)",
    re.IGNORECASE,
)


def is_marked(statement: Statement) -> bool:
    """Whether a statement says itself that it must be remembered."""
    return statement.source != "between" and bool(_MARKED.match(statement.text))


def summarize(
    round_: Round, choices: Sequence[ScoredStatement], kept: set[str], evidence: RoundEvidence
) -> Summary | None:
    """Return the summary of a round from its own statements and evidence; None if there is nothing to say."""
    here = [one for one in choices if one.statement.round == round_.prompt_number and one.statement.source == "last"]
    ranked = sorted(here, key=lambda one: -one.score)
    open_ends = [one for one in ranked if is_open(one.statement)]
    marked = [one for one in ranked if one not in open_ends and is_marked(one.statement)]
    rest = [one for one in ranked if one.title in kept and one not in open_ends and one not in marked]
    reasons = [one for one in rest if _matches(one, "cause", "decision", "limit")]
    done = [one for one in rest if one not in reasons]
    said: list[ScoredStatement] = []
    completed = [
        *(str(check) for check in evidence.checks[-2:] if check.passed),
        *(str(commit) for commit in evidence.commits[-3:]),
    ]
    left = [*open_ends, *_still_open(choices, round_.prompt_number)]
    ending = ending_of(round_, evidence.acts)
    summary = Summary(
        request=asked(round_.prompt, REQUEST),
        completed=_joined([*_texts(done, said), *completed], COMPLETED),
        learned=_joined(_texts([*marked, *reasons], said), LEARNED),
        next_steps=_joined([ending, *_failing(evidence), *_to_do(evidence), *_texts(left, [])], OPEN),
        notes=_joined(_loose(round_, evidence), NOTES),
    )
    return None if summary == Summary() else summary


def summarize_so_far(round_: Round, evidence: RoundEvidence) -> Summary | None:
    """Return the summary of a round that has not ended, and may never: the agent may have been killed."""
    if any(event.kind == "stop" for event in round_.earlier) or not (ending := ending_of(round_, evidence.acts)):
        return None  # it has ended, and what came late changes nothing; or nothing was done
    return Summary(
        request=asked(round_.prompt, REQUEST),
        next_steps=_joined([ending, *_failing(evidence), *_to_do(evidence)], OPEN),
        notes=_joined(_loose(round_, evidence), NOTES),
    )


def _still_open(choices: Sequence[ScoredStatement], number: int) -> list[ScoredStatement]:
    """What earlier rounds left open and no later statement says is done, the newest first."""
    left = []
    for one in reversed(choices):
        statement = one.statement
        if statement.round < number and is_open(statement) and not statement.text.endswith(("?", "？")):
            later = (other for other in choices if other.statement.round > statement.round)
            if not any(is_same(one.words, other.words, SAME) for other in later):
                left.append(one)
    return left[:CARRIED]


def _matches(choice: ScoredStatement, *cues: str) -> bool:
    return any(CUES[cue].search(choice.statement.text) for cue in cues)


def _texts(choices: Iterable[ScoredStatement], said: list[ScoredStatement]) -> list[str]:
    """The statements that are not said yet, each without the label that its field repeats."""
    texts = []
    for one in choices:
        if not any(is_same(one.words, other.words, SAME) for other in said):
            said.append(one)
            texts.append(OPEN_LABEL.sub("", one.statement.text))
    return texts


def _joined(parts: Iterable[str], limit: int) -> str:
    """The parts as sentences, as many as fit."""
    text = ""
    for part in dict.fromkeys(tidy(part, limit).rstrip(":：") for part in parts):
        if not part or width(part) < 9:
            continue
        sentence = part if part.endswith((".", "!", "?", "…", "。", "？")) else f"{part}."
        if text and len(text) + len(sentence) + 1 > limit:
            continue
        text = f"{text} {sentence}".strip()
    return tidy(text, limit)


def _failing(evidence: RoundEvidence) -> list[str]:
    return [str(check) for check in evidence.checks if check.passed is False]


def _to_do(evidence: RoundEvidence) -> list[str]:
    return [f"Not done: {joined(evidence.todos, 5)}"] if evidence.todos else []


def _loose(round_: Round, evidence: RoundEvidence) -> list[str]:
    """The files that the session has changed since its last commit."""
    before = round_.notes_before.rstrip(".").partition(NOT_COMMITTED)[2] if not evidence.commits else ""
    names = [name for name in _MORE.sub("", before).split(", ") if name]
    loose = dict.fromkeys([*evidence.uncommitted, *names])
    return [f"{NOT_COMMITTED}{joined(loose, LOOSE)}"] if loose else []
