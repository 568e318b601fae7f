"""Rounds to observe, made from a few words: what an agent reports of its tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from backstory.model import ContentId, Event, Kind, Noted, Observation, Reply, Round, Summary, Turn
from backstory.observe.offline import tell

HOME = "/home/ada/shop"
_ids = count(1)


def event(kind: Kind, tool: str | None, payload: Mapping[str, Any]) -> Event:
    """One stored event."""
    number = next(_ids)
    return Event(number, 1, 1, kind, "2026-01-01T00:00:00Z", tool, f"use-{number}", payload)


def used(tool: str, given: Any, response: Any = "") -> Event:
    """A tool use that worked."""
    return event("tool", tool, {"tool_input": given, "tool_response": response, "cwd": HOME})


def failed(tool: str, given: Any, error: str) -> Event:
    """A tool use that failed."""
    return event("tool_failure", tool, {"tool_input": given, "error": error, "cwd": HOME})


def ran(command: str, output: str = "", code: int = 0) -> Event:
    """A shell command and what came of it."""
    if code:
        return failed("Bash", {"command": command}, f"Exit code {code}\n{output}")
    return used("Bash", {"command": command}, {"stdout": output, "stderr": "", "interrupted": False})


def edited(path: str, old: str, new: str, original: str = "") -> Event:
    """An edit as Claude Code reports it, with the hunk where the original file is given."""
    response: dict[str, Any] = {"filePath": f"{HOME}/{path}", "oldString": old, "newString": new}
    if original:
        start = original[: original.index(old)].count("\n") + 1
        lines = [f"-{line}" for line in old.split("\n")] + [f"+{line}" for line in new.split("\n")]
        hunk = {"oldStart": start, "oldLines": old.count("\n") + 1, "newStart": start, "newLines": new.count("\n") + 1}
        response |= {"originalFile": original, "structuredPatch": [{**hunk, "lines": lines}]}
    return used("Edit", {"file_path": f"{HOME}/{path}", "old_string": old, "new_string": new}, response)


def wrote(path: str, content: str) -> Event:
    """A new file."""
    given = {"file_path": f"{HOME}/{path}", "content": content}
    return used("Write", given, {"type": "create", "filePath": f"{HOME}/{path}", "content": content})


def read(path: str, content: str, start: int = 1) -> Event:
    """A file that was read."""
    file = {"filePath": f"{HOME}/{path}", "content": content, "startLine": start, "numLines": content.count("\n") + 1}
    return used("Read", {"file_path": f"{HOME}/{path}"}, {"type": "text", "file": file})


def stopped(message: str = "", user: str = "") -> Event:
    """The end of a round."""
    return event("stop", None, {"last_assistant_message": message, "last_user_message": user})


def a_round(prompt: str, *events: Event, earlier: tuple[Event, ...] = ()) -> Round:
    """A round of these events."""
    return Round(1, ContentId("c"), None, "claude-code", "shop", HOME, 1, prompt, tuple(events), earlier)


def told(prompt: str, *events: Event) -> Reply:
    """What the observer makes of a round of these events."""
    return tell(a_round(prompt, *events))


def only(reply: Reply, kind: str = "") -> Observation:
    """The one observation, or the one of a type."""
    found = [one for one in reply.observations if not kind or one.type == kind]
    assert len(found) == 1, [one.title for one in reply.observations]
    return found[0]


def words(observation: Observation) -> str:
    """All that an observation says."""
    one = observation
    return "\n".join([one.title, one.subtitle, one.narrative, *one.facts])


def later(round_: Round, *events: Event) -> Round:
    """The same round, observed again when more has happened."""
    return replace(round_, events=tuple(events), earlier=(*round_.earlier, *round_.events))


class Talk:
    """A session that goes on: each round is observed with what was said and noted before."""

    def __init__(self) -> None:
        self.turns: tuple[Turn, ...] = ()
        self.tools: tuple[tuple[int, str], ...] = ()
        self.standing: dict[int, Observation] = {}
        self.summaries: dict[int, Summary] = {}
        self._number = 0

    def round(self, prompt: str, *events: Event) -> Reply:
        """Observe a round and keep its reply as the store would."""
        self._number += 1
        last = next((str(one.payload["last_assistant_message"]) for one in events if one.kind == "stop"), "")
        for role, text in (("user", prompt), ("assistant", last)):
            at = len(self.turns)
            self.turns += (Turn(at, 1, at, self._number, role, None, text, "2026-01-01T00:00:00Z", None),)
        noted = tuple(
            Noted(number, 1, one.title, one.facts, one.importance, one.mark, one.fact_marks)
            for number, one in self.standing.items()
        )
        self.tools += tuple((self._number, one.tool_name) for one in events if one.tool_name)
        whole = replace(a_round(prompt, *events), prompt_number=self._number, turns=self.turns, noted=noted)
        reply = tell(replace(whole, tools=self.tools))
        for one in reply.observations:
            self.standing[next(_ids)] = one
            for old in one.replaces:
                self.standing.pop(old, None)
        for noted_ in reply.revised:
            if known := self.standing.get(noted_.id):
                self.standing[noted_.id] = replace(
                    known,
                    title=noted_.title,
                    facts=noted_.facts,
                    importance=noted_.importance,
                    mark=noted_.mark,
                    fact_marks=noted_.fact_marks,
                )
        for number, summary in self.summaries.items():
            kept = replace(summary, next_steps="", notes="") if reply.carries else summary
            for claim in reply.withdrawn:
                kept = replace(
                    kept, learned=kept.learned.replace(claim, ""), completed=kept.completed.replace(claim, "")
                )
            self.summaries[number] = kept
        if reply.summary:
            self.summaries[self._number] = reply.summary
        return reply
