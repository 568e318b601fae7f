"""Fits the weights of the ranking of statements on recorded sessions with gold notes.

    .venv/bin/python bench/fit_ranking.py DATA [--write]

DATA has `notes/notes.jsonl` and `claude-code/transcripts`. A statement is good if its title tells a note. Printed
is the weighted recall of the notes in titles, for the sessions of each fold by weights that were fitted on the others.
With --write, weights that were fitted on all sessions replace `observe/offline/weights.json`.
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
from backstory.model import Turn
from backstory.observe.offline import rank, select
from backstory.observe.offline.statements import Statement, statements_of

WEIGHTS = Path(rank.__file__).with_name("weights.json")
FOLDS = 5
#: Strength of the penalty on large weights.
PENALTY = 3.0


@dataclass(slots=True)
class Example:
    """A statement of a session, the notes that its title tells, and its features."""

    session: int
    statement: Statement
    told: list[int]
    features: dict[str, float]


def turns_of(path: Path) -> list[Turn]:
    """Return what was said in a transcript."""
    turns: list[Turn] = []
    prompt = 0
    for report in AGENTS["claude-code"].transcripts.read(path, Mark(), True):
        if report.kind in ("prompt", "reply"):
            prompt += report.kind == "prompt"
            role, text = (
                ("user", report.payload["prompt"]) if report.kind == "prompt" else ("assistant", report.payload["text"])
            )
            turns.append(Turn(0, 1, len(turns), max(prompt, 1), role, None, text, report.occurred_at, None))
    return turns


def tells(keys: list[list[str]], text: str) -> bool:
    """Whether each group of a note's keys has an alternative that occurs in a text."""
    text = " ".join(text.split())
    patterns = (
        [key[1:-1] if len(key) > 2 and key[0] == key[-1] == "/" else re.escape(" ".join(key.split())) for key in group]
        for group in keys
    )
    return all(any(re.search(pattern, text, re.IGNORECASE) for pattern in group) for group in patterns)


def read(data: Path) -> tuple[list[dict[str, Any]], list[Example]]:
    notes = [json.loads(line) for line in (data / "notes" / "notes.jsonl").read_text().splitlines()]
    examples = []
    for number, note in enumerate(notes):
        statements = statements_of(turns_of(data / "claude-code" / "transcripts" / f"{note['session']}.jsonl.gz"))
        rounds = sorted({one.round for one in statements})
        for one in statements:
            title = select.title_of(one)
            told = [at for at, item in enumerate(note["items"]) if tells(item["keys"], title)]
            place = rounds.index(one.round)
            examples.append(Example(number, one, told, dict(rank.features(one, place, len(rounds)))))
    return notes, examples


def fit(examples: list[Example], notes: list[dict[str, Any]]) -> dict[str, float]:
    """Return the weights of a logistic regression. A note counts the same however many statements tell it."""
    names = sorted({name for one in examples for name in one.features})
    matrix = np.array([[1.0, *(one.features.get(name, 0.0) for name in names)] for one in examples])
    good = np.array([bool(one.told) for one in examples], float)
    times = Counter((one.session, at) for one in examples for at in one.told)
    importance = np.array(
        [
            1.5 * sum(notes[one.session]["items"][at]["weight"] / times[one.session, at] ** 0.5 for at in one.told)
            or 1.0
            for one in examples
        ]
    )
    weights = np.zeros(matrix.shape[1])
    penalty = np.full(len(weights), PENALTY)
    for _ in range(30):
        likely = 1 / (1 + np.exp(-matrix @ weights))
        slope = matrix.T @ (importance * (likely - good)) + penalty * weights
        curve = (matrix * (importance * likely * (1 - likely))[:, None]).T @ matrix + np.diag(penalty)
        step = np.linalg.solve(curve, slope)
        weights -= step
        if np.abs(step).max() < 1e-6:
            break
    return {"": float(weights[0])} | {name: float(w) for name, w in zip(names, weights[1:], strict=True)}


def recall(
    examples: list[Example], notes: list[dict[str, Any]], weights: dict[str, float], session: int
) -> tuple[int, int]:
    """Return the weight of a session's notes that its titles tell, and of all of them."""
    rank._weights = lambda: weights  # type: ignore[assignment]
    statements = [one.statement for one in examples if one.session == session]
    rounds = len({one.round for one in statements})
    titles = [one.title for one in select.choose(select.choices_of(statements), frozenset(), rounds)]
    items = notes[session]["items"]
    told = sum(item["weight"] for item in items if any(tells(item["keys"], title) for title in titles))
    return told, sum(item["weight"] for item in items)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    notes, examples = read(options.data)
    order = np.random.default_rng(0).permutation(len(notes))
    figures = []
    for fold in range(FOLDS):
        held_out = set(order[fold::FOLDS].tolist())
        weights = fit([one for one in examples if one.session not in held_out], notes)
        figures += [recall(examples, notes, weights, session) for session in held_out]
    print(f"titles, sessions left out of the fit: {sum(a for a, _ in figures) / sum(b for _, b in figures):.1%}")
    weights = fit(examples, notes)
    figures = [recall(examples, notes, weights, session) for session in range(len(notes))]
    print(f"titles, fitted on all: {sum(a for a, _ in figures) / sum(b for _, b in figures):.1%}")
    if options.write:
        rounded = {name: round(weight, 2) for name, weight in sorted(weights.items())}
        WEIGHTS.write_text(json.dumps(rounded, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
