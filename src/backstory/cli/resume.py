"""resume: finds a conversation by what you remember of it, and opens it in its agent."""

from __future__ import annotations

import argparse
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from backstory import ids, project, settings
from backstory.cli import hints, opening, session_lines, show
from backstory.cli.opening import Opening
from backstory.cli.session_lines import Row, route
from backstory.cli.worker import connect
from backstory.client import Client
from backstory.errors import BackstoryError
from backstory.sessions import lock

#: Sessions that are offered for words, and without words.
FOUND = 5
RECENT = 10
#: Milliseconds since the last event for which an active session may still be open somewhere.
OPEN_MS = 10 * 60_000


def add(commands: Any) -> None:
    resume_ = commands.add_parser("resume", help="find an earlier conversation and open it in its agent")
    resume_.description = (
        "Find an earlier conversation by what you remember of it, and open it in its agent, in its directory. Without "
        "words, choose one of the latest. In a project, its sessions are searched first."
    )
    resume_.add_argument("words", nargs="*", metavar="WORDS", help="words you remember, a title, or a session's id")
    resume_.add_argument("--project", default="", help="only this project (default: that of the current directory)")
    resume_.add_argument("--all", action="store_true", help="all projects")
    resume_.add_argument("--here", action="store_true", help="open it in the current directory")
    resume_.add_argument("--print", action="store_true", help="print the command and do not run it")
    resume_.add_argument("--json", action="store_true", help="print what was found as JSON")
    resume_.set_defaults(run=resume)


def resume(options: argparse.Namespace) -> int:
    client = connect()
    hints.check_project(client.get, options.project)
    words = " ".join(options.words).strip()
    rows = find(client, words, options)
    if options.json:
        show.as_json({"items": rows, "opening": _opening_json(client, rows[0], options) if rows else None})
        return 0
    if not rows:
        text = f"No session was found for “{words}”." if words else "There are no sessions yet."
        hint = "Try other words, or look through `backstory sessions`." if words else hints.first_steps()
        raise BackstoryError(text, hint)
    if options.print:
        # Only the command goes to standard output, so that a shell can evaluate it.
        with redirect_stdout(sys.stderr):
            _offer(rows, words)
        print(open_for(client, rows[0], options).shell_line)
        return 0
    _offer(rows, words)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    row = _choose(rows, words) if is_terminal else rows[0]
    if row is None:
        return 1
    found = open_for(client, row, options)
    if not is_terminal:
        print(f"\nTo open {'it' if len(rows) == 1 else 'the first one'}:\n  {found.shell_line}")
        return 0
    _run(client, found, row)
    return 0


def find(client: Client, words: str, options: argparse.Namespace) -> list[Row]:
    """Return the sessions to offer. Those of this project come first, unless others are asked for."""
    here = "" if options.all or options.project else project.find(str(Path.cwd())).key

    def search(name: str) -> list[Row]:
        if words:
            items: list[Row] = client.get("/api/sessions/search", words=words, project=name, limit=FOUND)["items"]
        else:
            items = client.get("/api/sessions", project=name, limit=RECENT)["items"]
        return items

    rows = search(options.project or here)
    if not rows and here:
        rows = search("")
    exact = [row for row in rows if row.get("exact")]
    return exact if len(exact) == 1 else rows


def _offer(rows: list[Row], words: str) -> None:
    """Print the sessions. If they were searched for, the best one is printed in full."""
    for number, row in enumerate(rows, 1):
        if words and number == 1:
            show.line(f"1. {show.titled(row)}")
            show.line(f"   {session_lines.place(row)}")
            session_lines.details(row, "   ")
        else:
            show.line(f"{number}. {session_lines.line(row)}")


def _choose(rows: list[Row], words: str) -> Row | None:
    """Ask which session to open. None if the user wants none."""
    if words and len(rows) == 1:
        return rows[0]
    last = len(rows)
    question = f"Open 1? [Enter, 2-{last} or n]" if words else f"Open which? [1-{last}, Enter for none]"
    while True:
        if (typed := show.ask(f"\n{question}")) is None:
            return None
        answer = typed.strip().lower()
        if words and answer in ("", "y", "yes"):
            return rows[0]
        if answer in ("", "n", "no", "q"):
            return None
        number = ids.number(answer)
        if number and 1 <= number <= last:
            return rows[number - 1]


def open_for(client: Client, row: Row, options: argparse.Namespace) -> Opening:
    """Return how to open a session, and let its agent find the transcript."""
    whole = client.get(route(str(row["id"])))
    found = opening.find(client, whole, str(Path.cwd()) if options.here else "")
    opening.place_transcript(client, whole, found)
    return found


def _opening_json(client: Client, row: Row, options: argparse.Namespace) -> dict[str, Any]:
    try:
        found = opening.find(client, client.get(route(str(row["id"]))), str(Path.cwd()) if options.here else "")
    except BackstoryError as error:
        return {"error": str(error), "hint": error.hint}
    return {"directory": found.directory, "command": list(found.command), "note": found.note}


def _run(client: Client, found: Opening, row: Row) -> None:
    if lock.is_held(settings.load().paths, row["content_session_id"]):
        hint = "Wait until it has ended. Two at once would split the conversation."
        raise BackstoryError(f"A program is using session S{row['id']}.", hint)
    if not shutil.which(found.command[0]):
        raise BackstoryError(
            f"`{found.command[0]}` is not installed, or not in PATH.", f"The command is: {found.shell_line}"
        )
    if found.note:
        show.paragraph(found.note)
    if row["status"] == "active" and ids.at_ms(row["last_event_at"]) > ids.now_ms() - OPEN_MS:
        show.paragraph("It was active a moment ago. If it is still open elsewhere, the conversation splits in two.")
    if row["status"] == "expired":
        client.post(f"/api/agent-sessions/{row['content_session_id']}", {"cause": "restore", "cwd": row["cwd"]})
    show.line(f"{found.agent}: {found.shell_line}")
    sys.stdout.flush()
    opening.run(found)
