"""sessions: lists, shows, finds, names, tags, exports and deletes sessions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from backstory import times
from backstory.cli import curate, hints, keep, output, result_lines, session_lines, show
from backstory.cli.session_lines import Row, route
from backstory.cli.worker import connect
from backstory.client import Client
from backstory.errors import BackstoryError
from backstory.model import SessionStatus
from backstory.text import escaped, json_escaped

#: label -> the field of a summary that it shows
LABELS = {"Done": "completed", "Learned": "learned", "Next": "next_steps", "Note": "notes"}
ID_HELP = "the session's number (3 or S3), or the agent's id or a prefix of it"


def add(commands: Any) -> None:
    text = "list, show, find, name and export sessions"
    top = commands.add_parser("sessions", help=text, description=f"{text[0].upper()}{text[1:]}.")
    actions = top.add_subparsers(metavar="ACTION")
    for listing in (top, actions.add_parser("list", help="list sessions, the last used first (the default)")):
        listing.add_argument("--project", default="", help="list only this project (name or key)")
        listing.add_argument("--tag", default="", help="list only sessions with this tag")
        listing.add_argument("--branch", default="", help="list only sessions on this branch")
        listing.add_argument("--agent", default="", help="list only sessions of this agent")
        listing.add_argument("--status", default="", choices=list(SessionStatus), help="list only this state")
        show.add_times(listing)
        listing.add_argument("--limit", type=int, default=20, help="maximum number of sessions (default: 20)")
        listing.runs_with_json(list_sessions)
    show_ = _action(actions, "show", show_session, "show one session: its prompts, summaries and observations")
    show_.add_argument("--turns", action="store_true", help="show every message instead")
    search_ = actions.add_parser("search", help="find sessions of this project by what you remember of them")
    search_.add_argument("words", nargs="+", metavar="WORDS", help="words, as you remember them")
    search_.add_argument("--project", default="", help="search this project (name or key)")
    search_.add_argument("--all-projects", action="store_true", help="search all projects")
    search_.add_argument("--tag", default="", help="search only sessions with this tag")
    show.add_times(search_)
    search_.add_argument("--limit", type=int, default=10, help="maximum number of sessions (default: 10)")
    search_.runs_with_json(search_sessions)
    rename_ = _action(actions, "rename", rename_session, "give a session a title")
    rename_.add_argument("title", nargs="*", metavar="TITLE", help="the title; `backstory resume` finds it")
    rename_.add_argument("--off", action="store_true", help="remove the title; the session gets its automatic one")
    tag_ = _action(actions, "tag", tag_session, "add tags to a session")
    tag_.add_argument("tags", nargs="+", metavar="TAG", help="a tag, such as release")
    tag_.add_argument("--off", action="store_true", help="remove these tags")
    export_ = _action(actions, "export", export_session, "write the conversation of a session as Markdown or JSON")
    export_.add_argument("--format", choices=["markdown", "json"], help="the format (default: markdown)")
    output.add_option(export_, "the file")
    delete_ = actions.add_parser("delete", help="delete sessions from memory permanently")
    delete_.add_argument("ids", nargs="+", metavar="ID", help=ID_HELP)
    delete_.add_argument("--yes", action="store_true", help="delete; without it, the sessions are only listed")
    delete_.runs_with_json(delete_sessions)
    keep.add_action(actions)


def _action(actions: Any, name: str, run: Any, text: str) -> Any:
    """Add an action for one session."""
    action = actions.add_parser(name, help=text)
    action.add_argument("id", metavar="ID", help=ID_HELP)
    action.runs_with_json(run)
    return action


def get(client: Client, name: str) -> Row:
    """Return the session that a user names."""
    if not name.strip():
        raise BackstoryError("The session's id is empty.", "List sessions with `backstory sessions`.")
    row: Row = client.get(route(name))
    return row


def list_sessions(options: argparse.Namespace) -> None:
    if not 1 <= options.limit <= 200:
        raise BackstoryError("--limit must be a number from 1 to 200.")
    client = connect()
    hints.check_project(client.get, options.project)
    filters = {name: getattr(options, name) for name in ("project", "tag", "branch", "agent", "status", "limit")}
    filters |= {"since": times.since(options.since), "until": times.until(options.until)}
    page = client.get("/api/sessions", **filters)
    if show.printed_json(options, page):
        return
    session_lines.put(page["items"])
    if not page["items"]:
        print(hints.empty(client) or "There are no such sessions.")
    elif page["next"]:
        result_lines.hint(f"There are more: add --limit {min(2 * options.limit, 200)}.")


def search_sessions(options: argparse.Namespace) -> None:
    if not 1 <= options.limit <= 50:
        raise BackstoryError("--limit must be a number from 1 to 50.")
    filters = {name: getattr(options, name) for name in ("project", "tag", "limit")}
    filters |= {"since": times.since(options.since), "until": times.until(options.until)}
    if options.project and options.all_projects:
        raise BackstoryError("Give either --project or --all-projects.")
    filters["cwd"] = "" if options.all_projects else str(Path.cwd())
    client = connect()
    hints.check_project(client.get, options.project)
    page = client.get("/api/sessions/search", words=" ".join(options.words), **filters)
    if show.printed_json(options, page):
        return
    session_lines.put(page["items"])
    if page["items"]:
        print("`backstory resume ID` opens one.")
    else:
        further = "" if options.project or options.all_projects else ", or add --all-projects"
        print(hints.empty(client) or f"No session was found. Try fewer or other words{further}.")


def show_session(options: argparse.Namespace) -> None:
    client = connect()
    row = get(client, options.id)
    if options.turns:
        show_turns(client, options)
    elif not show.printed_json(options, row):
        put(row)


def put(row: Row) -> None:
    """Print a session: its prompts, summaries and observations."""
    show.paragraph(f"Session S{row['id']} of {row['project']}: {show.titled(row)}", code=show.BOLD)
    print(f"{row['agent']} {row['content_session_id']}")
    began, ended = show.when(row["created_at"]), show.when(row["last_event_at"])
    ended = ended.removeprefix(began[:11])  # only the time if it is the same day
    show.paragraph(f"{row['status']}, {began} to {ended}{session_lines.branch(row)}")
    if row["cwd"]:
        print(row["cwd"])
    if row["tags"]:
        show.paragraph(f"Tags: {', '.join(row['tags'])}")
    for link in row["links"]:
        show.line(f"{link['relation'].capitalize()} {link['id']}: {show.titled(link)}")
    if row["usage"]:
        show.paragraph(session_lines.used(row["usage"]))
    _print_told(row["told"])
    _print_rounds(row)


def _print_told(told: list[Row]) -> None:
    """Print what the session was told, and when."""
    for one in told:
        count = len(one["observations"]) + one["gone"]
        gone = f", {one['gone']} of them hidden or forgotten since" if one["gone"] else ""
        cause = "with a prompt" if one["cause"] == "prompt" else f"at its start ({one['cause']})"
        about = f"{show.count(count, 'observation')}{gone}"
        show.paragraph(f"Told {cause}, {show.when(one['at'])}: about {one['tokens']:,} tokens, {about}", hang="  ")
        for observation in one["observations"]:
            show.line(f"  #{observation['id']} {observation['type']}: {show.titled(observation)}")


def _print_rounds(row: Row) -> None:
    summaries = {s["prompt_number"]: s for s in row["summaries"] if s["source"] == "stop"}
    for prompt in row["prompts"]:
        print()
        number = prompt["prompt_number"]
        show.block(f"{number}. Asked", "(private)" if prompt["is_private"] else prompt["prompt"])
        if summary := summaries.get(number):
            for label, name in LABELS.items():
                show.block(label, summary[name])
        for observation in reversed(row["observations"]):
            if observation["prompt_number"] == number:
                show.line(f"  #{observation['id']} {observation['type']}: {show.titled(observation)}")


def show_turns(client: Client, options: argparse.Namespace) -> None:
    """Print every message of the session."""
    turns = client.items(route(options.id, "/turns"), limit=200)
    if options.json:
        show.as_json({"items": list(turns)})
        return
    for turn in turns:
        label = f"{turn['number']}. {turn['speaker'] or turn['role']}, {show.when(turn['at'])}"
        show.block(label, turn["text"] or "(private or forgotten)")


def rename_session(options: argparse.Namespace) -> None:
    title = " ".join(options.title).strip()
    if bool(title) == options.off:
        raise BackstoryError("Give either a title or --off.", 'Example: `backstory sessions rename 12 "Cart totals"`.')
    _edit(options, {"title": title})


def tag_session(options: argparse.Namespace) -> None:
    _edit(options, {"remove_tags" if options.off else "add_tags": options.tags})


def _edit(options: argparse.Namespace, changes: dict[str, Any]) -> None:
    client = connect()
    row = client.patch(route(str(get(client, options.id)["id"])), changes)
    if not show.printed_json(options, row):
        show.line(f"{session_lines.mark(row):>5} {session_lines.line(row)}")


def export_session(options: argparse.Namespace) -> None:
    client = connect()
    row = get(client, options.id)
    is_json = options.json or options.format == "json"
    lines = client.lines(route(str(row["id"]), f"/export?format={'json' if is_json else 'markdown'}"))
    with output.opened(options.output, options.yes, json_escaped if is_json else escaped) as out:
        out.writelines(lines)
    about = {"session": row["id"], "file": options.output}
    if output.is_file(options.output) and not show.printed_json(options, about):
        print(f"Exported session S{row['id']} to {options.output}.")


def delete_sessions(options: argparse.Namespace) -> int:
    from backstory.agents import AGENTS  # these take long to import
    from backstory.cli import opening

    client = connect(timeout=curate.TIMEOUT_S)
    rows = list({row["id"]: row for row in (get(client, name) for name in options.ids)}.values())
    results = [client.post("/api/forget", {"sessions": [row["id"]], "dry_run": not options.yes}) for row in rows]
    if show.printed_json(options, {"items": results}):
        return 0 if not options.yes or all(result["wiped"] for result in results) else 1
    for row, result in zip(rows, results, strict=True):
        show.line(f"{session_lines.mark(row):>5} {session_lines.line(row)}")
        curate.print_deleted(result, not options.yes)
        if options.yes and (file := opening.transcript_of(row)):
            print(f"The transcript of {AGENTS[row['agent']].title} itself is not deleted:\n{file}")
    if not options.yes:
        print("Run it again with --yes to delete this. It cannot be undone.")
    return 0 if not options.yes or all(result["wiped"] for result in results) else 1
