"""Looking over memory: timeline and stats."""

from __future__ import annotations

import argparse
from typing import Any

from backstory.cli import show
from backstory.cli.memory import number_of
from backstory.cli.worker import connect
from backstory.errors import BackstoryError


def add(commands: Any) -> None:
    timeline_ = commands.add_parser("timeline", help="show what lay around an observation")
    timeline_.description = "Show the prompts, observations and summaries around an observation, in the order of time."
    timeline_.add_argument("id", nargs="?", metavar="ID", help="an observation, as search and context show it")
    timeline_.add_argument("--query", nargs="+", metavar="WORDS", help="around the best match of these words")
    timeline_.add_argument("--before", type=int, default=10, metavar="N", help="how many things before it (10)")
    timeline_.add_argument("--after", type=int, default=10, metavar="N", help="how many things after it (10)")
    timeline_.add_argument("--project", default="", help="a project's name or key")
    timeline_.add_argument("--json", action="store_true", help="print JSON")
    timeline_.set_defaults(run=timeline)
    stats_ = commands.add_parser("stats", help="show how much is remembered")
    stats_.description = "Show how much is remembered, how large it is, and what a session is told of it."
    stats_.add_argument("--project", default="", help="a project's name or key")
    stats_.add_argument("--json", action="store_true", help="print JSON")
    stats_.set_defaults(run=stats)


def timeline(options: argparse.Namespace) -> int:
    if bool(options.id) == bool(options.query):
        raise BackstoryError("Name an observation's id, or --query WORDS.")
    if not (0 <= options.before <= 200 and 0 <= options.after <= 200):
        raise BackstoryError("--before and --after take a number from 0 to 200.")
    asked = {"anchor": number_of(options.id)} if options.id else {"query": " ".join(options.query)}
    found = connect().get("/api/timeline", **asked, before=options.before, after=options.after, project=options.project)
    if options.json:
        show.as_json(found)
        return 0
    for item in found["items"]:
        here = ">" if item["is_anchor"] else " "
        what = item["type"] or item["kind"]
        show.line(f"{here} {show.mark(item):>6} {show.when(item['created_at'])} {what}: {item['title']}")
    if not found["items"]:
        print("Nothing was found.")
    return 0


def stats(options: argparse.Namespace) -> int:
    found = connect().get("/api/stats", project=options.project)
    if options.json:
        show.as_json(found)
        return 0
    counts, sizes = found["counts"], found["sizes"]
    if counts["first_at"]:
        print(f"from          {show.when(counts['first_at'])} to {show.when(counts['last_at'])}")
    print(f"sessions      {counts['sessions']}")
    print(f"prompts       {counts['prompts']}")
    print(f"events        {_counted(counts['events'])}")
    print(f"observations  {_counted(counts['observations'])}")
    print(f"summaries     {counts['summaries']}")
    if counts["vectors"]:
        print(f"vectors       {counts['vectors']}")
    _row("on disk       ", ", ".join(f"{name} {show.size(size)}" for name, size in sizes.items()))
    if found["room"]:
        shown = sorted(((size, name) for name, size in found["room"].items() if size), reverse=True)
        _row("takes room    ", ", ".join(f"{name} {show.size(size)}" for size, name in shown))
    for row in found["projects"]:
        show.paragraph(
            f"{row['name']}: {row['sessions']} sessions, {row['observations']} observations, "
            f"last {show.when(row['last_at'])}; a session is told about {row['context_tokens_estimate']:,} tokens, "
            f"which stand for {row['stands_for_tokens_estimate']:,} of {row['events_tokens_estimate']:,} (estimates)",
            hang="  ",
        )
    _print_models(found["models"])
    return 0


def _row(label: str, text: str) -> None:
    show.paragraph(label + text, hang=" " * len(label))


def _print_models(models: dict[str, Any]) -> None:
    """What models took, the latest days first."""
    for row in models["days"]:
        where = f" for {row['project']}" if row["project"] else ""
        show.line(f"{row['day']}  {row['provider']} ({row['model']}){where}: {_taken(row)}")
    if models["total"]["calls"]:
        unpriced = models["total"]["calls_without_price"]
        known = f"; {unpriced} calls have no known price" if unpriced else ""
        show.line(f"models in all: {_taken(models['total'])}{known}")


def _taken(row: dict[str, Any]) -> str:
    money = "" if row["cost_micros"] is None else f", ${row['cost_micros'] / 1_000_000:,.4f} by list prices"
    cached = f" ({row['cached_tokens']:,} cached)" if row["cached_tokens"] else ""
    return (
        f"{row['calls']:,} calls, {row['input_tokens']:,} tokens read{cached}, {row['output_tokens']:,} written{money}"
    )


def _counted(counts: dict[str, int]) -> str:
    parts = ", ".join(f"{name} {number}" for name, number in counts.items())
    return f"{sum(counts.values())}" + (f" ({parts})" if parts else "")
