"""groups run and groups chat: talk to the agent of a group."""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

from backstory.cli import show
from backstory.cli.worker import connect
from backstory.client import Client
from backstory.errors import BackstoryError
from backstory.groups import api
from backstory.groups.names import route
from backstory.text import json_escaped

#: Why a run ended -> what the user is told. A run that is done needs no words.
ENDINGS = {
    "closed": "The agent was ended.",
    "idle": "The agent was silent for too long and was ended.",
    "timeout": "The agent took too long and was ended.",
    "stopped": "The worker was stopped, and the agent with it.",
}


def add(actions: Any) -> None:
    """Add the actions to the parser of `groups`."""
    run_ = actions.add_parser("run", help="send a message to the agent of a group and print its answer")
    run_.add_argument("group", metavar="GROUP")
    run_.add_argument("message", metavar="MESSAGE", help="the message; - reads it from standard input")
    run_.add_argument("--json", action="store_true", help="print each event as a line of JSON")
    run_.set_defaults(run=run)
    chat_ = actions.add_parser("chat", help="talk to the agent of a group; /exit ends it")
    chat_.add_argument("group", metavar="GROUP")
    chat_.set_defaults(run=chat, is_endless=True)


def run(options: argparse.Namespace) -> int:
    message = show.given_text(options.message)
    client = connect(timeout=api.ANSWER_S)
    try:
        events = api.events(options.group, message, client=client)
        return max([_shown(name, data, options.json) for name, data in events], default=1)
    except KeyboardInterrupt:
        _end(client, options.group)
        raise


def chat(options: argparse.Namespace) -> None:
    """Send each line as a message. A line that is typed while the agent works is a follow-up."""
    client, lines = connect(timeout=api.ANSWER_S), Lines(options.group)
    for line in lines:
        lines.is_busy = True
        try:
            for name, data in api.events(options.group, line, client=client):
                _shown(name, data)
        except KeyboardInterrupt:
            _end(client, options.group)
        except BackstoryError as error:
            print(f"backstory: {error}\n{error.hint}".rstrip(), file=sys.stderr)
        finally:
            lines.is_busy = False


class Lines:
    """The lines that a user types. Those for an agent at work are sent to it at once."""

    def __init__(self, group: str) -> None:
        self.is_busy = False
        self._group, self._client = group, connect()
        self._typed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._is_terminal = sys.stdin.isatty()

    def __iter__(self) -> Iterator[str]:
        if not self._is_terminal:
            yield from _wanted(sys.stdin)
            return
        threading.Thread(target=self._read, daemon=True).start()
        while True:
            print("> ", end="", flush=True)
            if (line := self._typed.get()) is None:
                return
            yield line

    def _read(self) -> None:
        for line in _wanted(sys.stdin):
            if not (self.is_busy and self._follow_up(line)):
                self._typed.put(line)
        self._typed.put(None)

    def _follow_up(self, line: str) -> bool:
        """Send a line to the agent at work. Return False if it has ended by now."""
        try:
            body = {"message": line, "is_for_later": False}
            return bool(self._client.post(route(self._group, "messages"), body)["is_running"])
        except BackstoryError:
            return False


def _wanted(lines: Any) -> Iterator[str]:
    for line in lines:
        if line.strip() in ("/exit", "/quit"):
            return
        if line.strip():
            yield line.rstrip("\n")


def _shown(name: str, data: dict[str, Any], as_json: bool = False) -> int:
    """Print an event. Return the exit code that it asks for."""
    if as_json:
        print(json_escaped(json.dumps({"event": name, **data}, ensure_ascii=False)), flush=True)
    elif name == "text":
        print(data["text"], flush=True)
    elif name == "tool":
        print(f"[{data['name']}] {data['input']}", file=sys.stderr)
    elif name == "waiting":
        print("Waiting, because the agents of other groups run.", file=sys.stderr)
    elif name == "recovered":
        print(data["text"], file=sys.stderr)
    elif name == "error":
        print(f"backstory: {data['error']}\n{data['hint']}".rstrip(), file=sys.stderr)
    elif name == "result" and data["is_error"]:
        print(f"backstory: The agent stopped with an error: {data['text'] or data['stop_reason']}", file=sys.stderr)
    elif name == "ended" and data["reason"] in ENDINGS:
        print(ENDINGS[data["reason"]], file=sys.stderr)
    is_bad = name == "error" or (name == "result" and data["is_error"])
    return int(is_bad or (name == "ended" and data["reason"] != "done"))


def _end(client: Client, group: str) -> None:
    client.post(route(group, "close"), {"now": True})
    print(ENDINGS["closed"], file=sys.stderr)
