"""groups: conversations that are kept apart, each group with an agent, a history and a memory of its own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from backstory import ids, settings
from backstory.cli import group_run, show
from backstory.cli.worker import connect
from backstory.errors import BackstoryError
from backstory.groups.names import GroupPaths, check, route
from backstory.paths import expanded

#: Seconds for the deletion of a group. Its text is removed from the files of the database, too.
DELETE_S = 600.0


def add(commands: Any) -> None:
    text = "talk to agents in groups, each with its own conversations and memory"
    top = commands.add_parser("groups", help=text, description=f"{text[0].upper()}{text[1:]}.")
    actions = top.add_subparsers(metavar="ACTION")
    for listing in (top, actions.add_parser("list", help="list groups (the default)")):
        listing.runs_with_json(list_groups)
    _action(actions, "create", create, "create a group")
    group_run.add(actions)
    show_ = _action(actions, "show", show_group, "show a group: its active session, its history and its archives")
    show_.add_argument("--archive", type=int, metavar="NUMBER", help="show the text of this archive instead")
    clear_ = _action(actions, "clear", clear, "archive the active session; the next message starts a new one")
    clear_.add_argument("--name", default="", help="its name in the history (default: derived from it)")
    _action(actions, "history", history, "list the sessions that a group had")
    resume_ = _action(actions, "resume", resume, "go on with a session of the history")
    resume_.add_argument("number", type=int, metavar="NUMBER", help="its number in the history")
    resume_.add_argument("--save-as", default="", metavar="NAME", help="the name of the active session in the history")
    search_ = _action(actions, "search", search, "find sessions of a group by what was said in them")
    search_.add_argument("words", nargs="+", metavar="WORDS", help="words, as you remember them")
    archive_ = _action(actions, "archive", archive, "write the active session as markdown; it goes on")
    archive_.add_argument("--title", default="", help="the title (default: derived from it)")
    text = (
        "Delete a group: its sessions, its archives, its files and its memory. Its files are exported before, to a "
        "file in the current directory."
    )
    delete_ = _action(actions, "delete", delete, "delete a group permanently", text)
    delete_.add_argument("--output", default="", metavar="FILE", help="where to export its files before")
    delete_.add_argument("--yes", action="store_true", help="do not ask")


def _action(actions: Any, name: str, run: Any, help: str, description: str | None = None) -> Any:
    action = actions.add_parser(name, help=help, description=description)
    action.add_argument("group", metavar="GROUP", help="the name of the group, such as main")
    action.runs_with_json(run)
    return action


def list_groups(options: argparse.Namespace) -> None:
    page = connect().get("/api/groups")
    if show.printed_json(options, page):
        return
    for row in page["items"]:
        now = f"active since {show.when(row['updated_at'])}" if row["session_id"] else "no active session"
        working = ", its agent works" if row["is_running"] else ""
        show.line(f"{row['name']:<20} {now}{working}, {show.count(row['history'], 'session')} in its history")


def create(options: argparse.Namespace) -> None:
    row = connect().post("/api/groups", {"name": check(options.group)})
    if not show.printed_json(options, row):
        print(f"Created the group {row['name']}. Its files are in {row['folder']}.")


def show_group(options: argparse.Namespace) -> None:
    more = () if options.archive is None else ("archives", str(options.archive))
    row = connect().get(route(options.group, *more))
    if show.printed_json(options, row):
        return
    if more:
        print(row["text"], end="")
        return
    print(f"{row['name']}: {row['session_id'] or 'no active session'}")
    print(f"Files: {row['folder']}")
    _print_history(row["history"])
    for each in row["archives"]:
        show.line(f"{each['id']:>4} {show.when(each['archived_at'])} conversations/{each['file']}")


def history(options: argparse.Namespace) -> None:
    page = connect().get(route(options.group, "history"))
    if show.printed_json(options, page):
        return
    _print_history(page["items"])
    if not page["items"]:
        print("The history is empty.")


def _print_history(entries: list[dict[str, Any]]) -> None:
    for entry in entries:
        lost = "" if entry["transcript_available"] else " (no transcript)"
        show.line(f"{entry['id']:>4} {show.when(entry['archived_at'])} {entry['name']}{lost}")


def clear(options: argparse.Namespace) -> None:
    entry = connect().post(route(options.group, "clear"), {"name": options.name})
    if not show.printed_json(options, entry):
        show.paragraph(f"Archived as number {entry['id']}: {entry['name']}. The next message starts a new session.")


def resume(options: argparse.Namespace) -> None:
    if options.number < 1:
        raise BackstoryError("The number is not that of a session.", f"See `backstory groups history {options.group}`.")
    body = {"id": options.number, "save_current_as": options.save_as}
    pointer = connect().post(route(options.group, "resume"), body)
    if not show.printed_json(options, pointer):
        where = "" if pointer["group"] == options.group else f" to {pointer['group']}"
        print(f"The next message{where} continues this session.")


def search(options: argparse.Namespace) -> None:
    page = connect().get(route(options.group, "search"), query=" ".join(options.words))
    if show.printed_json(options, page):
        return
    for row in page["items"]:
        number = "now" if row["is_active"] else row["id"] or ""
        owner = "" if row["group"] == options.group else f" ({row['group']})"
        show.line(f"{number:>4} {show.when(row['last_used'])} {row.get('name') or row['title']}{owner}")
        if row["excerpt"]:
            show.line(f"     {row['excerpt']}")
    if not page["items"]:
        print("No session was found.")


def archive(options: argparse.Namespace) -> None:
    written = connect().post(route(options.group, "archive"), {"title": options.title})
    if not show.printed_json(options, written):
        print(written["file"] or "There is nothing new to archive.")


def delete(options: argparse.Namespace) -> int:
    client = connect(timeout=DELETE_S)
    row = client.get(route(options.group))
    if not options.yes and not _confirmed(row):
        print("Nothing was deleted.", file=sys.stderr)
        return 1
    target = expanded(options.output or f"{row['name']}-{ids.today()}.tar.gz")
    client.post(route(options.group, "close"), {"now": True})  # so that it does not write while its files are read
    _export(row["name"], target)
    deleted = client.delete(route(options.group))
    if not show.printed_json(options, {**deleted, "export": str(target)}):
        had = show.count(deleted["sessions"], "session")
        print(f"Deleted the group {row['name']} and {had}. Its files are in {target}.")
    return 0


def _confirmed(row: dict[str, Any]) -> bool:
    """Ask whether to delete a group. Without a terminal nobody can answer."""
    had = len(row["history"]) + bool(row["session_id"])
    question = f"Delete the group {row['name']} with {show.count(had, 'session')}, its files and its memory?"
    if not show.can_ask():
        raise BackstoryError(question, "Run it again with --yes. This cannot be undone.")
    return show.confirmed(question)


def _export(group: str, target: Path) -> None:
    """Write the files of a group to an archive that only its owner can read."""
    import os

    from backstory.groups import export

    paths = GroupPaths(settings.load().paths.data, group)
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise BackstoryError(f"{target} exists already.", "Name another file with --output.") from None
    try:
        with os.fdopen(handle, "wb") as out:
            left_out = export.write(paths, out)
    except OSError as error:
        target.unlink(missing_ok=True)
        message = f"The files of the group could not be exported, so it was not deleted: {error.strerror or error}."
        raise BackstoryError(message, f"Look at {error.filename or paths.folder}.") from None
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    if left_out:
        print(f"Left out of {target}: {show.count(left_out, 'entry')} with too long a path.", file=sys.stderr)
