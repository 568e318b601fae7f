"""What the titles and facts of the offline observer are worth, by labels that readers gave every statement.

    .venv/bin/python bench/judged.py DATA

DATA has `claude-code/transcripts`. `judged.jsonl` has a line of JSON for each session: `labels` has its statements by
`turn.position`, and `facts` the facts that later sessions need, with weights of 1 to 3. A statement is labelled A (a
later session needs it; the number is that of its fact), B (fair) or F (false or misleading when the session has ended).
A statement without a label is useless (C). There are more facts here than gold notes in `fit_ranking.py`, and what is
told and not needed is judged, too. So these figures vary less by chance.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fit_ranking import ended, read_transcript

from backstory.observe.offline import FACT, tell
from backstory.observe.offline.select import title_of
from backstory.observe.offline.statements import ON_THE_WAY, statements_of
from backstory.observe.offline.text import tidy

JUDGED = Path(__file__).with_name("judged.jsonl")
TITLE = 200  #: characters to which the observer cuts a title


@dataclass(slots=True)
class Shares:
    """What is told, by label, and the needed facts in it."""

    name: str
    labels: Counter[str] = field(default_factory=Counter)
    needed: set[tuple[str, str]] = field(default_factory=set)  #: session and fact

    def add(self, session: str, label: str) -> None:
        self.labels[label[0]] += 1
        if label[0] == "A" and label[1:]:
            self.needed.add((session, label[1:]))

    def line(self, weights: dict[tuple[str, str], int]) -> str:
        total = self.labels.total()
        shares = " | ".join(f"{100 * self.labels[label] / total:.1f}" for label in "ABCF")
        told = sum(weights[fact] for fact in self.needed) / sum(weights.values())
        return f"| {self.name} | {total} | {shares} | {100 * told:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    transcripts = parser.parse_args().data / "claude-code" / "transcripts"
    titles, facts, on_the_way, everything = map(Shares, ("titles", "facts", "facts on the way", "all"))
    weights: dict[tuple[str, str], int] = {}
    misled = observations = 0
    for judged in map(json.loads, JUDGED.read_text().splitlines()):
        session = judged["session"]
        weights |= {(session, fact): weight for fact, weight in judged["facts"].items()}
        turns, tools = read_transcript(transcripts / f"{session}.jsonl.gz")
        label_of: dict[str, str] = {}
        for one in statements_of(turns):
            label = judged["labels"].get(f"{one.turn}.{one.position}", "C")
            for text in (tidy(title_of(one), TITLE), tidy(f"{one.speaker}{one.text}", FACT)):
                label_of.setdefault(text, label)
        for seen in tell(ended(turns, tools)).observations:
            told = [(fact.startswith(ON_THE_WAY), label_of.get(fact, "C")) for fact in seen.facts]
            observations += 1
            misled += any(label.startswith("F") and not is_marked for is_marked, label in told)
            labels = [(titles, label_of.get(seen.title, "C"))]
            for shares, label in labels + [(on_the_way if is_marked else facts, label) for is_marked, label in told]:
                shares.add(session, label)
                everything.add(session, label)
    print("| told | number | needed (A) | fair (B) | useless (C) | false (F) | needed facts told |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for shares in (titles, facts, on_the_way, everything):
        print(shares.line(weights))
    print(f"\n{misled} of {observations} observations have a false fact that is not marked as said on the way.")


if __name__ == "__main__":
    main()
