"""timeline and stats: overviews of memory."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from backstory.cli import hints, result_lines, show
from backstory.cli.memory import number_of
from backstory.cli.worker import connect
from backstory.client import Client
from backstory.errors import BackstoryError
from backstory.text import cut, one_line

#: state of an event -> what it is called; one that is observed needs no word
_STATES = {"queued": "waiting", "leased": "being observed", "dead": "set aside", "tombstone": "private or skipped"}

#: Entries on each side of an observation, and entries that are shown without one.
AROUND = 10
NEWEST = 20


def add(commands: Any) -> None:
    timeline_ = commands.add_parser("timeline", help="show what happened before and after an observation")
    timeline_.description = "Show what came before and after an observation, by time. Without an id, show the newest."
    timeline_.add_argument("id", nargs="?", metavar="ID", help="an observation's id, as printed by search and context")
    timeline_.add_argument(
        "--query", nargs="+", metavar="WORDS", help="use the best match for these words instead of ID"
    )
    before = f"number of entries before it (default: {AROUND}), or of the newest (default: {NEWEST})"
    timeline_.add_argument("--before", type=int, metavar="N", help=before)
    after = f"number of entries after it (default: {AROUND})"
    timeline_.add_argument("--after", type=int, default=AROUND, metavar="N", help=after)
    timeline_.add_argument("--project", default="", help="project name or key (default: the current directory's)")
    timeline_.add_argument("--all-projects", action="store_true", help="show or search all projects")
    timeline_.runs_with_json(timeline)
    stats_ = commands.add_parser("stats", help="show the size of memory and what models cost")
    stats_.description = (
        "Show how much is stored, how large it is, how much of it a session gets, and what models cost."
    )
    stats_.add_argument("--project", default="", help="count only this project (name or key)")
    stats_.add_argument(
        "--days", type=int, metavar="N", help="show the last N days instead, and what was learned where"
    )
    stats_.runs_with_json(stats)


def timeline(options: argparse.Namespace) -> None:
    if options.id and options.query:
        raise BackstoryError("Give either an observation's id or --query WORDS.")
    has_anchor = bool(options.id or options.query)
    before = options.before if options.before is not None else AROUND if has_anchor else NEWEST
    if not (0 <= before <= 200 and 0 <= options.after <= 200):
        raise BackstoryError("--before and --after must be numbers from 0 to 200.")
    anchor = {"anchor": number_of(options.id)} if options.id else {"query": " ".join(options.query or ())}
    client = connect()
    hints.check_project(client.get, options.project)
    where = {"project": options.project, "cwd": "" if options.all_projects else str(Path.cwd())}
    if has_anchor:
        page = client.get("/api/timeline", **anchor, before=before, after=options.after, **where)
    else:
        page = client.get("/api/feed", limit=max(before, 1), **where)
    if show.printed_json(options, page):
        return
    items = page["items"]
    result_lines.put_timeline(items if has_anchor else [_as_line(row) for row in reversed(items)])
    if not items:
        print(hints.empty(client) or f"Nothing was found.{' Try fewer or other words.' if options.query else ''}")


def _as_line(row: dict[str, Any]) -> dict[str, Any]:
    """An entry of the feed as one of a timeline."""
    private = "(private)" if row["is_private"] else ""
    return row | {"is_anchor": False, "title": cut(one_line(row["title"] or row["text"]), 160) or private}


def stats(options: argparse.Namespace) -> None:
    client = connect()
    hints.check_project(client.get, options.project)
    if options.days is not None:
        _print_days(client, options)
        return
    report = client.get("/api/stats", project=options.project)
    if show.printed_json(options, report):
        return
    if empty := hints.empty(client) if not report["projects"] else "":
        print(empty)
        return
    _print_counts(report)
    names = Counter(row["name"] for row in report["projects"])
    for row in report["projects"]:
        _print_project(row, f"{row['name']} ({row['key']})" if names[row["name"]] > 1 else row["name"])
    _print_models(report["models"])


def _print_days(client: Client, options: argparse.Namespace) -> None:
    """Print what happened on each day, the files with most observations, and how long rounds waited."""
    if not 1 <= options.days <= 366:
        raise BackstoryError("--days must be a number from 1 to 366.")
    days = client.get("/api/stats/days", project=options.project, days=options.days)["items"]
    where = client.get("/api/stats/files", project=options.project)
    queue = client.get("/api/stats/queue")
    if show.printed_json(options, {"days": days, "queue": queue} | where):
        return
    print(f"{'day':<12}{'sessions':>9}{'prompts':>9}{'observations':>14}{'tokens spent':>14}{'told, about':>14}")
    for row in days:
        counted = f"{row['sessions']:>9,}{row['prompts']:>9,}{row['observations']:>14,}"
        print(f"{row['day']:<12}{counted}{row['tokens_spent']:>14,}{row['tokens_told_estimate']:>14,}")
    for row in where["files"]:
        show.line(f"{row['observations']:>6} {row['path']} ({row['project']})")
    if queue["rounds"]:
        print(f"Half of the rounds were remembered within {queue['p50_s']:.1f} s, 95 % within {queue['p95_s']:.1f} s.")


def _print_counts(report: dict[str, Any]) -> None:
    counts, sizes = report["counts"], report["sizes"]
    if counts["first_at"]:
        print(f"from          {show.when(counts['first_at'])} to {show.when(counts['last_at'])}")
    for name in ("sessions", "prompts"):
        print(f"{name:<14}{counts[name]:,}")
    states = {label: counts["events"].get(state, 0) for state, label in _STATES.items()}
    _row("events        ", _total(sum(counts["events"].values()), states))
    _row("observations  ", _total(sum(counts["observations"].values()), counts["observations"]))
    print(f"summaries     {counts['summaries']:,}")
    _row("on disk       ", _sizes(sizes))
    if any(report["room"].values()):
        _row("by content    ", _sizes(report["room"]))


def _print_project(row: dict[str, Any], name: str) -> None:
    sessions, observations = show.count(row["sessions"], "session"), show.count(row["observations"], "observation")
    show.paragraph(f"{name}: {sessions}, {observations}, last used {show.when(row['last_at'])}", hang="  ")
    if row["observations"]:
        told, sources = row["context_tokens_estimate"], row["stands_for_tokens_estimate"]
        whole = row["events_tokens_estimate"]
        text = (
            f"A new session is told about {told:,} tokens, made from about {sources:,} of {whole:,} tokens of events."
        )
        show.paragraph(text, "  ")


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


def _total(total: int, parts: dict[str, int]) -> str:
    listed = ", ".join(f"{name} {number:,}" for name, number in parts.items() if number)
    return f"{total:,}" + (f" ({listed})" if listed else "")


def _sizes(sizes: dict[str, int]) -> str:
    largest = sorted(((size, name) for name, size in sizes.items() if size), reverse=True)
    return ", ".join(f"{name} {show.size(size)}" for size, name in largest)
