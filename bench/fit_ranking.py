"""Fits the weights of the ranking of statements on recorded sessions with gold notes.

    .venv/bin/python bench/fit_ranking.py DATA [LABELS] [--write]

DATA has `notes/notes.jsonl` and `claude-code/transcripts`. LABELS, else `bench/labels.jsonl`, are statements that were
judged by reading the whole session, a line of JSON each: session, turn, position, and A (a later session needs it),
B (fair), C (useless) or F (false). Two models are fitted: whether the title of a statement tells a note, and whether it
was judged useful. The weights are a sum of both.

Printed are the weighted recall of the notes in titles and the useful share of the judged titles, for the
sessions of each fold by weights that were fitted on the others. With --write, weights that were fitted on all sessions
replace `observe/offline/weights.json`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backstory.agents import AGENTS
from backstory.agents.transcripts import Mark
from backstory.model import ContentId, Event, Round, Turn
from backstory.observe.offline import rank, select
from backstory.observe.offline.evidence import changed_rounds
from backstory.observe.offline.statements import Statement, statements_of

#: session -> its notes
Notes = dict[str, list[Any]]
WEIGHTS = Path(rank.__file__).with_name("weights.json")
FOLDS = 5
#: Strength of the penalty on large weights, for notes and for labels.
PENALTY = 3.0
LABEL_PENALTY = 20.0
#: How much the model of the labels counts, against that of the notes.
LABEL_SHARE = 0.7
#: How much a label counts in its model.
LABEL_WEIGHTS = {"A": 2.0, "B": 1.0, "C": 1.0, "F": 1.5}


@dataclass(slots=True)
class Example:
    """A statement of a session, the notes that its title tells, its label if it was judged, and its features."""

    session: str
    statement: Statement
    told: list[int]
    label: str
    features: dict[str, float]
    changed: frozenset[int]  #: the rounds of its session that changed files


def read_transcript(path: Path) -> tuple[list[Turn], tuple[tuple[int, str], ...]]:
    """Return what was said in a transcript, and the tools that were used in each round."""
    turns: list[Turn] = []
    tools: set[tuple[int, str]] = set()
    prompt = 0
    for report in AGENTS["claude-code"].transcripts.read(path, Mark(), True):
        if report.kind == "tool" and report.tool_name:
            tools.add((max(prompt, 1), report.tool_name))
        elif report.kind in ("prompt", "reply"):
            prompt += report.kind == "prompt"
            role, text = (
                ("user", report.payload["prompt"]) if report.kind == "prompt" else ("assistant", report.payload["text"])
            )
            turns.append(Turn(0, 1, len(turns), max(prompt, 1), role, None, text, report.occurred_at, None))
    return turns, tuple(sorted(tools))


def ended(turns: list[Turn], tools: tuple[tuple[int, str], ...]) -> Round:
    """Return the last round of a session, in which everything that was said is ranked."""
    last = turns[-1].prompt_number
    stop = Event(1, 1, last, "stop", turns[-1].at, None, None, {})
    name = ContentId("recorded")
    return Round(1, name, None, "claude-code", "recorded", "/", last, "", (stop,), turns=tuple(turns), tools=tools)


def tells(keys: list[list[str]], text: str) -> bool:
    """Whether each group of a note's keys has an alternative that occurs in a text."""
    text = " ".join(text.split())
    patterns = (
        [key[1:-1] if len(key) > 2 and key[0] == key[-1] == "/" else re.escape(" ".join(key.split())) for key in group]
        for group in keys
    )
    return all(any(re.search(pattern, text, re.IGNORECASE) for pattern in group) for group in patterns)


def read(data: Path, labels_file: Path) -> tuple[Notes, list[Example]]:
    lines = map(json.loads, (data / "notes" / "notes.jsonl").read_text().splitlines())
    notes: Notes = {note["session"]: note["items"] for note in lines}
    judged = map(json.loads, labels_file.read_text().splitlines())
    labels = {(one["session"], one["turn"], one["position"]): one["label"] for one in judged}
    examples = []
    for session in sorted({session for session, _, _ in labels} | notes.keys()):
        turns, tools = read_transcript(data / "claude-code" / "transcripts" / f"{session}.jsonl.gz")
        statements = statements_of(turns)
        rounds = rank.SessionRounds.of(statements, changed_rounds(ended(turns, tools)))
        for one in statements:
            title = select.title_of(one)
            told = [at for at, item in enumerate(notes.get(session, ())) if tells(item["keys"], title)]
            label = labels.get((session, one.turn, one.position), "")
            features = dict(rank.features(one, rounds))
            examples.append(Example(session, one, told, label, features, rounds.changed))
    return notes, examples


def fit(examples: list[Example], notes: Notes) -> dict[str, float]:
    """Return the weights. A note counts the same however many statements tell it."""
    noted = [one for one in examples if one.session in notes]
    times = Counter((one.session, at) for one in noted for at in one.told)
    counts = [
        1.5 * sum(notes[one.session][at]["weight"] / times[one.session, at] ** 0.5 for at in one.told) or 1.0
        for one in noted
    ]
    by_notes = regression(noted, [bool(one.told) for one in noted], counts, PENALTY)
    judged = [one for one in examples if one.label]
    counts = [LABEL_WEIGHTS[one.label] for one in judged]
    by_labels = regression(judged, [one.label in "AB" for one in judged], counts, LABEL_PENALTY)
    names = by_notes.keys() | by_labels.keys()
    return {name: by_notes.get(name, 0.0) + LABEL_SHARE * by_labels.get(name, 0.0) for name in names}


def regression(examples: list[Example], good: list[bool], counts: list[float], penalty: float) -> dict[str, float]:
    """Return the weights of a logistic regression, by Newton's method."""
    names = sorted({name for one in examples for name in one.features})
    matrix = np.array([[1.0, *(one.features.get(name, 0.0) for name in names)] for one in examples])
    wanted, importance = np.array(good, float), np.array(counts)
    weights, penalties = np.zeros(matrix.shape[1]), np.full(matrix.shape[1], penalty)
    for _ in range(30):
        likely = 1 / (1 + np.exp(-matrix @ weights))
        slope = matrix.T @ (importance * (likely - wanted)) + penalties * weights
        curve = (matrix * (importance * likely * (1 - likely))[:, None]).T @ matrix + np.diag(penalties)
        step = np.linalg.solve(curve, slope)
        weights -= step
        if np.abs(step).max() < 1e-6:
            break
    return {"": float(weights[0])} | {name: float(w) for name, w in zip(names, weights[1:], strict=True)}


@dataclass(slots=True)
class Figures:
    """What the titles of some sessions tell."""

    told: int = 0  #: the weight of the notes that are told
    notes: int = 0  #: the weight of all notes
    useful: int = 0  #: titles that were judged useful
    judged: int = 0  #: titles that were judged

    def add(self, examples: list[Example], items: list[Any], weights: dict[str, float]) -> None:
        """Add the titles of a session."""
        rank._weights = lambda: weights  # type: ignore[assignment]
        rank.own_score.cache_clear()
        labels = {one.statement: one.label for one in examples}
        rounds = len({one.round for one in labels})
        choices = select.choices_of(list(labels), examples[0].changed)
        chosen = select.choose(choices, frozenset(), rounds)
        given = [label for one in chosen if (label := labels[one.statement])]
        self.useful += sum(label in "AB" for label in given)
        self.judged += len(given)
        self.notes += sum(item["weight"] for item in items)
        self.told += sum(i["weight"] for i in items if any(tells(i["keys"], one.title) for one in chosen))

    def __str__(self) -> str:
        return f"{self.told / self.notes:.1%} of the notes in titles, {self.useful / self.judged:.1%} of titles useful"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("labels", type=Path, nargs="?", default=Path(__file__).with_name("labels.jsonl"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    notes, examples = read(options.data, options.labels)
    sessions: dict[str, list[Example]] = {}
    for one in examples:
        sessions.setdefault(one.session, []).append(one)
    held_out = Figures()
    # Sessions with notes come first, so that each fold has as many of them.
    order = sorted(np.random.default_rng(0).permutation(sorted(sessions)).tolist(), key=lambda name: name not in notes)
    for fold in range(FOLDS):
        names = set(order[fold::FOLDS])
        weights = fit([one for one in examples if one.session not in names], notes)
        for name in names:
            held_out.add(sessions[name], notes.get(name, []), weights)
    print(f"sessions left out of the fit: {held_out}")
    fitted, weights = Figures(), fit(examples, notes)
    for name, own in sessions.items():
        fitted.add(own, notes.get(name, []), weights)
    print(f"fitted on all: {fitted}")
    if options.write:
        rounded = {name: round(weight, 3) for name, weight in sorted(weights.items())}
        WEIGHTS.write_text(json.dumps(rounded, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
