"""search, show and context: read memory."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from backstory import ids, project
from backstory.cli import show
from backstory.cli.worker import connect
from backstory.errors import BackstoryError


def add(commands: Any) -> None:
    search_ = commands.add_parser("search", help="search memory", description="Search memory.")
    search_.add_argument("words", nargs="+", metavar="WORDS", help='words, or a phrase in "quotes"')
    search_.add_argument("--project", default="", help="search only this project (name or key)")
    kinds = ["observations", "summaries", "prompts", "turns", "sessions", "all"]
    search_.add_argument("--kind", default="", choices=kinds, help="only this kind of result")
    search_.add_argument("--type", default="", help="observations of this type, such as bugfix or decision")
    search_.add_argument("--concept", default="", help="observations with this concept, such as gotcha")
    search_.add_argument("--file", default="", help="observations about this file (path or end of a path)")
    search_.add_argument("--session", default="", help="search only this session (number or agent's id)")
    search_.add_argument("--agent", default="", help="search only this agent (name)")
    search_.add_argument("--since", default="", metavar="TIME", help="not before this time: 2026-02, 2026-02-21, ...")
    search_.add_argument("--until", default="", metavar="TIME", help="not after this time; the whole day is included")
    search_.add_argument("--limit", type=int, default=20, help="maximum number of results (default: 20)")
    search_.add_argument("--explain", action="store_true", help="show how each result was scored")
    search_.add_argument("--json", action="store_true", help="print JSON")
    search_.set_defaults(run=search)
    show_ = commands.add_parser("show", help="show observations in full", description="Show observations in full.")
    show_.add_argument("ids", nargs="+", metavar="ID", help="an observation's id, as printed by search and context")
    show_.add_argument("--json", action="store_true", help="print JSON")
    show_.set_defaults(run=show_observations)
    context_ = commands.add_parser("context", help="show the context that a new session gets")
    context_.description = "Show the context that a new session gets."
    context_.add_argument("--project", default="", help="project name or key (default: the current directory's)")
    context_.add_argument("--why", action="store_true", help="print the reason for each line")
    context_.add_argument("--json", action="store_true", help="print JSON")
    context_.set_defaults(run=context)


def search(options: argparse.Namespace) -> int:
    if not 1 <= options.limit <= 200:
        raise BackstoryError("--limit must be a number from 1 to 200.")
    names = ("project", "kind", "type", "concept", "file", "session", "agent", "since", "until", "limit", "explain")
    filters = {name: getattr(options, name) for name in names}
    client, is_phrase = connect(), any(" " in word.strip() for word in options.words)
    query = " ".join(f'"{word}"' if " " in word else word for word in options.words)
    page = client.post("/api/search", filters | {"query": query})
    if is_phrase and not page["items"]:
        # The quotes may have been meant for the shell. Search for the words without them.
        page = client.post("/api/search", filters | {"query": " ".join(options.words)})
    if options.json:
        show.as_json(page)
        return 0
    for item in page["items"]:
        kind = item.get("type") or item["kind"]
        replaced = f" (replaced by #{item['superseded_by']})" if item.get("superseded_by") else ""
        mark, when = show.mark(item), show.when(item["created_at"])
        show.line(f"{mark:>6} {when} {item['project']} {kind}{replaced}: {item['title']}")
        if options.explain:
            show.paragraph(_reasons(item["why"]), " " * 7, "  ")
    if not page["items"]:
        print("Nothing was found.")
    elif any(item["kind"] != "observation" for item in page["items"]):
        show.line("(`backstory show N` shows #N, `backstory sessions show N` shows SN)")
    return 0


def _reasons(why: dict[str, dict[str, float]]) -> str:
    """A result's score: what words and vectors add, with the rank in each list, and the factors that multiply it."""
    ranks = why.get("rank", {})
    added = [f"{n} {v:.2f}" + (f" (no. {ranks[n]})" if n in ranks else "") for n, v in why.get("adds", {}).items()]
    return ", ".join((*added, *(f"{name} ×{v:.2f}" for name, v in why.get("times", {}).items() if v != 1))) + "."


def show_observations(options: argparse.Namespace) -> int:
    client = connect()
    numbers = [number_of(word) for word in options.ids]
    rows = client.post("/api/observations/batch", {"ids": numbers})["items"]
    if options.json:
        show.as_json(rows)
    else:
        for position, row in enumerate(rows):
            if position:
                print()
            _print(row)
    if missing := set(numbers) - {row["id"] for row in rows}:
        listed = ", ".join(str(number) for number in sorted(missing))
        raise BackstoryError(f"There is no observation {listed}.", "Find ids with `backstory search`.")
    return 0


def number_of(word: str) -> int:
    if (number := ids.number(word.removeprefix("#"))) is None:
        raise BackstoryError(f"`{word}` is not an id.", "An id is a number. Find ids with `backstory search`.")
    return number


def _print(row: dict[str, Any]) -> None:
    show.paragraph(f"#{row['id']} {row['type']}: {row['title']}")
    show.paragraph(f"{row['project']}, {row['agent']}, {show.when(row['created_at'])}, session {row['session_id']}")
    if row["superseded_by"]:
        when = show.when(row["superseded_at"])
        show.paragraph(f"Replaced by #{row['superseded_by']} on {when}.")
    elif row["pinned_at"]:
        show.paragraph("Pinned: always part of its project's context.")
    if row["repeats"]:
        show.paragraph(f"Learned in {row['times_learned']} sessions, the time before as #{row['repeats']}.")
    if row["changed"]:
        show.paragraph(f"Files changed since then: {', '.join(row['changed'])}.")
    if row["subtitle"]:
        show.paragraph(row["subtitle"])
    show.block("What", row["narrative"])
    for label, name in (("Facts", "facts"), ("Changed", "files_modified"), ("Read", "files_read")):
        show.block(label, "\n".join(f"- {item}" for item in row[name]))
    show.block("Concepts", ", ".join(row["concepts"]))


def context(options: argparse.Namespace) -> int:
    here = "" if options.project else str(Path.cwd())
    name = options.project or project.find(here).key
    text = connect().get("/api/context/inject", project=name, cwd=here, **({"why": "true"} if options.why else {}))
    if options.json:
        show.as_json({"project": name, "context": text})
    else:
        print(text)
    return 0
