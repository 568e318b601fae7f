"""search, show and context: read memory."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from backstory import ids, times
from backstory.cli import hints, result_lines, session_lines, show
from backstory.cli.worker import connect
from backstory.client import Client
from backstory.errors import BackstoryError
from backstory.labels import labelled, unlabelled, unlabelled_lines
from backstory.model import ClaimMark


def add(commands: Any) -> None:
    search_ = commands.add_parser("search", help="search memory")
    search_.description = (
        "Search what is known about the project of the current directory. Without words, list the newest results that "
        "pass the filters."
    )
    search_.add_argument("words", nargs="*", metavar="WORDS", help="words, or a phrase: '\"deep copy\"'")
    search_.add_argument("--project", default="", metavar="NAME", help="search this project (name or key)")
    search_.add_argument("--all-projects", action="store_true", help="search all projects")
    kinds = ["observations", "summaries", "prompts", "turns", "sessions", "all"]
    search_.add_argument("--kind", default="", choices=kinds, help="only this kind of result")
    search_.add_argument("--type", default="", help="observations of this type, such as bugfix or decision")
    search_.add_argument("--concept", default="", help="observations with this concept, such as gotcha")
    search_.add_argument("--file", default="", help="observations about this file (path or end of a path)")
    search_.add_argument("--session", default="", metavar="ID", help="only this session (number or agent's id)")
    search_.add_argument("--agent", default="", metavar="NAME", help="only sessions of this agent")
    search_.add_argument("--branch", default="", metavar="NAME", help="results of this branch come first")
    show.add_times(search_)
    search_.add_argument("--limit", type=int, default=20, metavar="N", help="maximum number of results (default: 20)")
    search_.add_argument("--explain", action="store_true", help="show how each result was scored")
    search_.runs_with_json(search)
    show_ = commands.add_parser("show", help="show an observation or a session in full")
    show_.description = "Show observations and sessions in full."
    show_.add_argument("ids", nargs="+", metavar="ID", help="an id as search prints it: 12 or #12, or S3 for a session")
    show_.add_argument("--sources", action="store_true", help="also show what observations rest on and replaced")
    show_.runs_with_json(show_items)
    context_ = commands.add_parser("context", help="show the context that a new session gets")
    context_.description = "Show the context that a new session gets."
    context_.add_argument("--project", default="", help="project name or key (default: the current directory's)")
    context_.add_argument("--branch", default="", help="on this branch (default: the one that is checked out)")
    context_.add_argument("--why", action="store_true", help="print the reason for each line")
    context_.runs_with_json(context)


def search(options: argparse.Namespace) -> None:
    if not 1 <= options.limit <= 200:
        raise BackstoryError("--limit must be a number from 1 to 200.")
    if options.project and options.all_projects:
        raise BackstoryError("Give either --project or --all-projects.")
    names = ("kind", "type", "concept", "file", "session", "agent")
    filters = {name: getattr(options, name) for name in names}
    filters |= {"since": times.since(options.since), "until": times.until(options.until)}
    if not options.words and not any(filters.values()):
        raise BackstoryError("Nothing to search for was given.", "Give words, or a filter such as --file cart.py.")
    cwd = "" if options.all_projects or options.session else str(Path.cwd())
    filters |= {"project": options.project, "cwd": cwd, "branch": options.branch}
    filters |= {"limit": options.limit, "explain": options.explain}
    client = connect()
    page = client.post("/api/search", filters | {"query": " ".join(options.words)})
    if page["note"]:
        raise BackstoryError(page["note"])
    if show.printed_json(options, page):
        return
    result_lines.put(page["items"], is_everywhere=not page["project"], explain=_reasons if options.explain else None)
    if not page["items"]:
        print(_nothing(client, page))
    elif page["next"]:
        result_lines.hint(f"There are more: add --limit {min(2 * options.limit, 200)}.")


def _nothing(client: Client, page: dict[str, Any]) -> str:
    """Say that nothing was found, and what to do about it."""
    if page["elsewhere"]:
        results = show.count(page["elsewhere"], "result")
        return f"Nothing was found in {page['project']}. Other projects have {results}: add --all-projects."
    place = f" in {page['project']}" if page["project"] else ""
    return hints.empty(client) or f"Nothing was found{place}. Try fewer or other words."


def _reasons(why: dict[str, dict[str, float]]) -> str:
    """A result's score: what words and vectors add, with the rank in each list, and the factors that multiply it."""
    ranks = why.get("rank", {})
    added = [f"{n} {v:.2f}" + (f" (no. {ranks[n]})" if n in ranks else "") for n, v in why.get("adds", {}).items()]
    return ", ".join((*added, *(f"{name} ×{v:.2f}" for name, v in why.get("times", {}).items() if v != 1))) + "."


def show_items(options: argparse.Namespace) -> None:
    """Show observations and sessions in the order in which they are named."""
    client, rows = connect(), []
    for position, word in enumerate(options.ids):
        if ids.session_number(word) is not None:
            from backstory.cli import sessions

            row, printed = client.get(session_lines.route(word)), sessions.put
        else:
            number = number_of(word)
            found = client.post("/api/observations/batch", {"ids": [number]})["items"]
            if not found:
                raise BackstoryError(f"There is no observation {number}.", "Find ids with `backstory search`.")
            row, printed = found[0], _print
            if options.sources:
                row["sources"] = client.get(f"/api/observations/{number}/sources")
        rows.append(row)
        if not options.json:
            if position:
                print()
            printed(row)
    if options.json:
        show.as_json(rows)


def number_of(word: str) -> int:
    """Return the number of an observation that a user names."""
    if (number := ids.number(word.removeprefix("#"))) is not None:
        return number
    if ids.session_number(word) is not None:
        raise BackstoryError(f"{word} is a session, not an observation.", f"`backstory show {word}` lists its own.")
    raise BackstoryError(f"`{word}` is not an id.", "An id is a number. Find ids with `backstory search`.")


def _print(row: dict[str, Any]) -> None:
    show.paragraph(f"#{row['id']} {row['type']}: {show.titled(row)}", code=show.BOLD)
    show.paragraph(f"{row['project']}, {row['agent']}, {show.when(row['created_at'])}, session S{row['session_id']}")
    if row["superseded_by"]:
        when = show.when(row["superseded_at"])
        show.paragraph(f"Replaced by #{row['superseded_by']} on {when}.")
    elif row["hidden_at"]:
        show.paragraph(f"Hidden from context and search (`backstory hide --undo {row['id']}` shows it again).")
    elif row["pinned_at"]:
        show.paragraph("Pinned: always part of its project's context.")
    if row["repeats"]:
        show.paragraph(f"Learned in {row['times_learned']} sessions, the time before as #{row['repeats']}.")
    if row["changed"]:
        show.paragraph(f"Files changed since then: {', '.join(row['changed'])}.")
    if row["subtitle"]:
        show.paragraph(unlabelled(row["subtitle"]))
    show.block("What", unlabelled_lines(row["narrative"]))
    if "sources" not in row:
        show.block("Asked", unlabelled_lines(row["asked"]))
        show.block("Answered", unlabelled_lines(row["answered"]))
    facts = zip(row["fact_marks"], row["facts"], strict=True)
    show.block("Facts", "\n".join(f"- {labelled(ClaimMark(mark), fact)}" for mark, fact in facts))
    for label, name in (("Changed", "files_modified"), ("Read", "files_read")):
        show.block(label, "\n".join(f"- {unlabelled(item)}" for item in row[name]))
    show.block("Concepts", ", ".join(row["concepts"]))
    if "sources" in row:
        _print_sources(row["sources"])


def _print_sources(sources: dict[str, Any]) -> None:
    prompt = sources["prompt"]
    if prompt:
        show.block("Asked", "(private)" if prompt["is_private"] else unlabelled_lines(prompt["prompt"] or ""))
    events = [f"- {show.when(each['occurred_at'])} {each['tool_name'] or each['kind']}" for each in sources["events"]]
    show.block("From", "\n".join(events))
    for label, name in (("Replaces", "replaces"), ("Learned before as", "repeats")):
        show.block(label, "\n".join(f"- #{each['id']} {show.titled(each)}" for each in sources[name]))
    said = [f"{turn['role']}: {unlabelled_lines(turn['text'])}" for turn in sources["turns"] if turn["text"]]
    show.block("Conversation", "\n".join(said))


def context(options: argparse.Namespace) -> None:
    from backstory import project  # it takes long to import

    here = "" if options.project else str(Path.cwd())
    name = options.project or project.find(here).key
    client = connect()
    hints.check_project(client.get, options.project)
    # The branch may be checked out in another directory than this one.
    where = {"branch": options.branch} if options.branch else {"cwd": here}
    text = client.get("/api/context/inject", project=name, **where, why="true" if options.why else "")
    if not show.printed_json(options, {"project": name, "context": text}):
        for each in text.splitlines():
            show.wrapped(each)
        result_lines.hint(hints.empty(client))
