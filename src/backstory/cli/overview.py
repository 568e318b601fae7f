"""timeline and stats: overviews of memory."""

from __future__ import annotations

import argparse
from typing import Any

from backstory.cli import hints, show
from backstory.cli.memory import number_of
from backstory.cli.worker import connect
from backstory.errors import BackstoryError


def add(commands: Any) -> None:
    timeline_ = commands.add_parser("timeline", help="show what happened before and after an observation")
    timeline_.description = "Show the prompts, observations and summaries before and after an observation, by time."
    timeline_.add_argument("id", nargs="?", metavar="ID", help="an observation's id, as printed by search and context")
    timeline_.add_argument(
        "--query", nargs="+", metavar="WORDS", help="use the best match for these words instead of ID"
    )
    for side in ("before", "after"):
        help_text = f"number of entries {side} it (default: 10)"
        timeline_.add_argument(f"--{side}", type=int, default=10, metavar="N", help=help_text)
    timeline_.add_argument("--project", default="", help="show only this project (name or key)")
    timeline_.add_argument("--json", action="store_true", help="print JSON")
    timeline_.set_defaults(run=timeline)
    stats_ = commands.add_parser("stats", help="show the size of memory and what models cost")
    stats_.description = (
        "Show how much is stored, how large it is, how much of it a session gets, and what models cost."
    )
    stats_.add_argument("--project", default="", help="count only this project (name or key)")
    stats_.add_argument("--json", action="store_true", help="print JSON")
    stats_.set_defaults(run=stats)


def timeline(options: argparse.Namespace) -> int:
    if bool(options.id) == bool(options.query):
        raise BackstoryError("Give either an observation's id or --query WORDS.")
    if not (0 <= options.before <= 200 and 0 <= options.after <= 200):
        raise BackstoryError("--before and --after must be numbers from 0 to 200.")
    anchor = {"anchor": number_of(options.id)} if options.id else {"query": " ".join(options.query)}
    client = connect()
    hints.check_project(client.get, options.project)
    page = client.get("/api/timeline", **anchor, before=options.before, after=options.after, project=options.project)
    if options.json:
        show.as_json(page)
        return 0
    for item in page["items"]:
        arrow = ">" if item["is_anchor"] else " "
        kind = item["type"] or item["kind"]
        show.line(f"{arrow} {show.mark(item):>6} {show.when(item['created_at'])} {kind}: {item['title']}")
    if not page["items"]:
        print(hints.empty(client) or "Nothing was found. Try fewer or other words.")
    return 0


def stats(options: argparse.Namespace) -> int:
    client = connect()
    hints.check_project(client.get, options.project)
    report = client.get("/api/stats", project=options.project)
    if options.json:
        show.as_json(report)
        return 0
    counts, sizes = report["counts"], report["sizes"]
    if counts["first_at"]:
        print(f"from          {show.when(counts['first_at'])} to {show.when(counts['last_at'])}")
    print(f"sessions      {counts['sessions']}")
    print(f"prompts       {counts['prompts']}")
    print(f"events        {_total(counts['events'])}")
    print(f"observations  {_total(counts['observations'])}")
    print(f"summaries     {counts['summaries']}")
    _row("on disk       ", ", ".join(f"{name} {show.size(size)}" for name, size in sizes.items()))
    if report["room"]:
        largest = sorted(((size, name) for name, size in report["room"].items() if size), reverse=True)
        _row("by content    ", ", ".join(f"{name} {show.size(size)}" for size, name in largest))
    for row in report["projects"]:
        show.paragraph(
            f"{row['name']}: {show.count(row['sessions'], 'session')}, "
            f"{show.count(row['observations'], 'observation')}, "
            f"last {show.when(row['last_at'])}. A session's context has about {row['context_tokens_estimate']:,} "
            f"tokens. They cover about {row['stands_for_tokens_estimate']:,} of {row['events_tokens_estimate']:,} "
            "tokens of events.",
            hang="  ",
        )
    _print_models(report["models"])
    if empty := hints.empty(client) if not report["projects"] else "":
        print(empty)
    return 0


def _row(label: str, text: str) -> None:
    show.paragraph(label + text, hang=" " * len(label))


def _print_models(models: dict[str, Any]) -> None:
    """The calls, tokens and cost of models, newest day first."""
    for row in models["days"]:
        project = f" for {row['project']}" if row["project"] else ""
        show.line(f"{row['day']}  {row['provider']} ({row['model']}){project}: {_usage(row)}")
    if models["total"]["calls"]:
        unpriced = models["total"]["calls_without_price"]
        unknown = f"; {show.count(unpriced, 'call has', 'calls have')} no known price" if unpriced else ""
        show.line(f"models in total: {_usage(models['total'])}{unknown}")


def _usage(row: dict[str, Any]) -> str:
    cost = "" if row["cost_micros"] is None else f", ${row['cost_micros'] / 1_000_000:,.4f} at list prices"
    cached = f" ({row['cached_tokens']:,} cached)" if row["cached_tokens"] else ""
    read = f"{row['input_tokens']:,} tokens read{cached}"
    return f"{show.count(row['calls'], 'call')}, {read}, {row['output_tokens']:,} written{cost}"


def _total(counts: dict[str, int]) -> str:
    parts = ", ".join(f"{name} {number}" for name, number in counts.items())
    return f"{sum(counts.values())}" + (f" ({parts})" if parts else "")
