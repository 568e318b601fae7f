"""What the titles and facts of the offline observer are worth, by labels that readers gave every statement.

    .venv/bin/python bench/judged.py DATA

DATA has `claude-code/transcripts`. `judged.jsonl` has a line of JSON for each session: `labels` has its statements by
`turn.position`, and `facts` the facts that later sessions need, with weights of 1 to 3. A statement is labelled A (a
later session needs it; the number is that of its fact), B (fair) or F (false or misleading when the session has ended).
A statement without a label is useless (C). There are more facts here than gold notes in `fit_ranking.py`, and what is
told and not needed is judged, too. So these figures vary less by chance. A mark says who said a statement, or that work
went on after it. A sentence that is told with the items of its list has the label that it had without them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fit_ranking import ended, read_transcript

from backstory.observe.offline import FACT, tell
from backstory.observe.offline.select import key_of, said_of, title_of
from backstory.observe.offline.statements import statements_of
from backstory.observe.offline.text import tidy

JUDGED = Path(__file__).with_name("judged.jsonl")


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
    kinds = ("titles", "titles with a mark", "facts", "facts with a mark", "all")
    shares = {kind: Shares(kind) for kind in kinds}
    weights: dict[tuple[str, str], int] = {}
    misled = observations = 0
    for judged in map(json.loads, JUDGED.read_text().splitlines()):
        session = judged["session"]
        weights |= {(session, fact): weight for fact, weight in judged["facts"].items()}
        turns, tools = read_transcript(transcripts / f"{session}.jsonl.gz")
        label_of: dict[str, str] = {}
        for one in statements_of(turns):
            label = judged["labels"].get(f"{one.turn}.{one.position}", "C")
            for text in (title_of(one), said_of(one)):
                label_of.setdefault(key_of(tidy(text, FACT)), label)
        for seen in tell(ended(turns, tools)).observations:
            observations += 1
            told = [("titles", seen.mark, seen.title), *(("facts", *fact) for fact in seen.marked_facts)]
            labels = [
                (f"{kind} with a mark" if mark else kind, label_of.get(key_of(text), "C")) for kind, mark, text in told
            ]
            misled += any(label.startswith("F") and kind in ("titles", "facts") for kind, label in labels)
            for kind, label in labels:
                shares[kind].add(session, label)
                shares["all"].add(session, label)
    print("| told | number | needed (A) | fair (B) | useless (C) | false (F) | needed facts told |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for kind in kinds:
        print(shares[kind].line(weights))
    print(f"\n{misled} of {observations} observations have a false title or fact without a mark.")


if __name__ == "__main__":
    main()
