"""What an agent can ask of its memory: a tool is a row, calls the route that does the work, answers in few words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request

from backstory import ids
from backstory.capture import bodies
from backstory.errors import BadInput, NotFound
from backstory.text import cut, harmless, local, one_line
from backstory.worker.endpoints import Endpoint, perform
from backstory.worker.principal import Principal

#: Of one text in an answer; the whole of a larger one is for people (`backstory show`).
LONGEST = 8000
Id = Annotated[int, Meta(ge=1, le=2**62)]
Project = Annotated[str, Meta(max_length=4096, description="a name or key; else all")]
Here = Annotated[str, Meta(max_length=4096, description="a name or key; else this one")]
Words = Annotated[str, Meta(min_length=1, max_length=20_000, description="names and words; a phrase in quotes")]


class SearchArguments(msgspec.Struct, forbid_unknown_fields=True):
    query: Words
    project: Project = ""
    kind: Literal["", "observations", "summaries", "prompts", "turns"] = ""
    type: Literal["", "bugfix", "feature", "refactor", "change", "discovery", "decision"] = ""
    file: Annotated[str, Meta(max_length=4096, description="that it read or changed; the end of a path will do")] = ""
    since: Annotated[str, Meta(max_length=40, description="2026-02-21, or a part of it")] = ""
    until: Annotated[str, Meta(max_length=40)] = ""
    limit: Annotated[int, Meta(ge=1, le=50)] = 20


class TimelineArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Id
    before: Annotated[int, Meta(ge=0, le=50)] = 5
    after: Annotated[int, Meta(ge=0, le=50)] = 5


class IdsArguments(msgspec.Struct, forbid_unknown_fields=True):
    ids: Annotated[list[Id], Meta(min_length=1, max_length=20)]


class SessionArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Annotated[Id | str, Meta(description="its number (of S12: 12), or the agent's own id")]


class Context(msgspec.Struct, forbid_unknown_fields=True):
    project: Here = ""


class Remember(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1, max_length=100_000)]
    title: Annotated[str, Meta(max_length=500)] = ""
    type: Literal["bugfix", "feature", "refactor", "change", "discovery", "decision"] = "decision"
    project: Here = ""


class Pin(msgspec.Struct, forbid_unknown_fields=True):
    id: Id
    pinned: bool = True


class Supersede(msgspec.Struct, forbid_unknown_fields=True):
    old: Id
    new: Id | None


class FindSessions(msgspec.Struct, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=20_000, description="what was talked about; empty for the newest")] = ""
    project: Project = ""
    limit: Annotated[int, Meta(ge=1, le=50)] = 10


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls a tool, and where they work."""

    principal: Principal
    cwd: str  #: empty if it is not known


@dataclass(frozen=True, slots=True)
class Tool:
    """A row of the table."""

    name: str
    says: str
    takes: type[msgspec.Struct]
    run: Callable[[Any, Caller], Awaitable[str]]  #: from its arguments to its answer
    changes: bool = False
    destroys: bool = False
    fenced: bool = False  #: its answer stands in a fence of its own

    @property
    def schema(self) -> dict[str, Any]:
        """What it takes, as JSON schema; every session pays for each word of it."""
        _, components = msgspec.json.schema_components([self.takes])
        found: dict[str, Any] = _lean(components[self.takes.__name__])
        return found


class Tools:
    """The tools, over the worker's route table."""

    def __init__(self, table: Sequence[Endpoint]) -> None:
        self._routes = {(endpoint.method, endpoint.path): endpoint for endpoint in table}
        rows = (
            Tool(
                "search",
                "Find what earlier sessions did, learned or decided. Step 1 of 3: an index (#id, date, title). "
                "Then `timeline` for what lay around one, `get_observations` for the whole of the few that matter.",
                SearchArguments,
                self.search,
            ),
            Tool(
                "timeline",
                "Step 2: what happened just before and after an observation.",
                TimelineArguments,
                self.timeline,
            ),
            Tool("get_observations", "Step 3: observations whole, by their ids.", IdsArguments, self.get_observations),
            Tool("get_session", "A session: what was asked, what came of it.", SessionArguments, self.get_session),
            Tool("find_sessions", "Sessions about something, or the newest.", FindSessions, self.find_sessions),
            Tool(
                "session_context",
                "What a new session of a project is told.",
                Context,
                self.session_context,
                fenced=True,
            ),
            Tool(
                "remember",
                "Keep a decision, fact or lesson for later sessions. One thing in plain words.",
                Remember,
                self.remember,
                changes=True,
            ),
            Tool("pin", "Have every later session told of an observation, or no longer.", Pin, self.pin, changes=True),
            Tool(
                "supersede",
                "Say that a newer observation holds in place of an older one, which becomes history (new null: undo).",
                Supersede,
                self.supersede,
                changes=True,
            ),
            Tool(
                "forget",
                "Delete observations and what they came from, for good. Only when the user asks for it.",
                IdsArguments,
                self.forget,
                changes=True,
                destroys=True,
            ),
        )
        self.rows = {tool.name: tool for tool in rows}

    async def call(self, name: str, arguments: Any, caller: Caller) -> str:
        """Run a tool. Wrong arguments raise a BackstoryError of one sentence."""
        tool = self.rows.get(name)
        if tool is None:
            raise NotFound(f"There is no tool {name[:80]}.")
        # Stripped as a request's body is: nothing private goes further, nor anything that no table takes.
        given = bodies.strip(msgspec.json.encode(arguments or {}))
        try:
            asked = msgspec.convert(given, tool.takes)
        except msgspec.ValidationError as error:
            raise BadInput(f"{error}.") from None
        answer = await tool.run(asked, caller)
        return answer if tool.fenced else harmless(answer)

    async def _ask(self, caller: Caller, method: str, path: str, given: Any = None, **names: Any) -> Any:
        """Ask a route for the caller, as a request over HTTP would."""
        endpoint = self._routes[method, path]

        async def read() -> tuple[Any, Any]:
            try:
                body = msgspec.convert(given, endpoint.body) if endpoint.body else None
                return body, msgspec.convert(given, endpoint.query) if endpoint.query else None
            except msgspec.ValidationError as error:
                raise BadInput(f"{error}.") from None

        request = Request({"type": "http", "headers": [], "path_params": names})
        answer = await perform(endpoint, caller.principal, request, read)
        return msgspec.to_builtins(answer) if isinstance(answer, msgspec.Struct) else answer

    async def search(self, asked: SearchArguments, caller: Caller) -> str:
        found = await self._ask(caller, "GET", "/api/search", msgspec.to_builtins(asked))
        lines = [_hit(item) for item in found["items"]]
        if found["next"]:
            lines.append("(there are more: ask for something narrower)")
        return "\n".join(lines) or "Nothing was found."

    async def timeline(self, asked: TimelineArguments, caller: Caller) -> str:
        given = {"anchor": str(asked.id), "before": asked.before, "after": asked.after}
        found = await self._ask(caller, "GET", "/api/timeline", given)
        return "\n".join(("> " if item["is_anchor"] else "  ") + _hit(item) for item in found["items"])

    async def get_observations(self, asked: IdsArguments, caller: Caller) -> str:
        found = await self._ask(caller, "POST", "/api/observations/batch", {"ids": asked.ids})
        missing = [number for number in asked.ids if number not in {item["id"] for item in found["items"]}]
        if not found["items"]:
            raise NotFound(f"There is no observation {', '.join(map(str, missing))}.")
        parts = ["\n".join(_whole(item)) for item in found["items"]]
        return "\n\n".join([*parts, *(f"There is no observation {number}." for number in missing)])

    async def get_session(self, asked: SessionArguments, caller: Caller) -> str:
        name = str(asked.id).removeprefix("S") if ids.number(str(asked.id)[1:]) is not None else str(asked.id)
        return "\n".join(_session(await self._ask(caller, "GET", "/api/sessions/{id}", id=name)))

    async def find_sessions(self, asked: FindSessions, caller: Caller) -> str:
        if not asked.query.strip():
            given = {"project": asked.project, "limit": asked.limit}
            rows = (await self._ask(caller, "GET", "/api/sessions", given))["items"]
        else:
            given = {"query": asked.query, "project": asked.project, "kind": "sessions", "limit": asked.limit}
            hits = (await self._ask(caller, "GET", "/api/search", given))["items"]
            rows = [await self._ask(caller, "GET", "/api/sessions/{id}", id=str(hit["id"])) for hit in hits]
        return "\n".join(map(_session_line, rows)) or "Nothing was found."

    async def session_context(self, asked: Context, caller: Caller) -> str:
        if not asked.project and not caller.cwd:
            raise BadInput("Name a project.")
        answer = await self._ask(caller, "GET", "/api/context/inject", {"project": asked.project, "cwd": caller.cwd})
        return bytes(answer.body).decode()

    async def remember(self, asked: Remember, caller: Caller) -> str:
        if not asked.project and not caller.cwd:
            raise BadInput("Name the project that this is about.")
        row = await self._ask(caller, "POST", "/api/memories", {**msgspec.to_builtins(asked), "cwd": caller.cwd})
        return f"Remembered for {_line(row['project'], 80)}: {_hit(row)}"

    async def pin(self, asked: Pin, caller: Caller) -> str:
        row = await self._ask(caller, "PATCH", "/api/observations/{id:int}", {"pinned": asked.pinned}, id=asked.id)
        return f"{'Pinned' if asked.pinned else 'No longer pinned'}: {_hit(row)}"

    async def supersede(self, asked: Supersede, caller: Caller) -> str:
        row = await self._ask(caller, "PATCH", "/api/observations/{id:int}", {"superseded_by": asked.new}, id=asked.old)
        return _hit(row) if asked.new else f"Holds again: {_hit(row)}"

    async def forget(self, asked: IdsArguments, caller: Caller) -> str:
        gone = await self._ask(caller, "POST", "/api/forget", {"ids": asked.ids})
        told = f"Forgotten: {', '.join(f'#{number}' for number in gone['observations'])}."
        beside = ", ".join(f"#{number}" for number in gone["beside"][:20])
        return told + (f" Made of the same events, and still there: {beside}." if beside else "")


def _lean(schema: Any) -> Any:
    """Without what tells a model nothing: limits that nobody meets, empty defaults. All is checked the same."""
    if isinstance(schema, dict):
        dull = ("title", "maxLength", "minLength", "minItems", "minimum", "additionalProperties")
        empty: dict[str, Any] = {"default": "", "maximum": 2**62, "required": []}
        return {k: _lean(v) for k, v in schema.items() if k not in dull and not (k in empty and empty[k] == v)}
    return [_lean(item) for item in schema] if isinstance(schema, list) else schema


def _line(text: str | None, limit: int) -> str:
    return cut(one_line(text or ""), limit)


def _hit(item: dict[str, Any]) -> str:
    """One line: a mark to ask on with, when, where, what."""
    kind = item.get("kind", "observation")
    mark = f"#{item['id']}" if kind == "observation" else f"S{item['session_id']}"
    where = f"{_line(item.get('project'), 60)} " if item.get("project") else ""
    notes = " [pinned]" if item.get("pinned_at") else ""
    notes += f" [replaced by #{item['superseded_by']}]" if item.get("superseded_by") else ""
    what = item.get("type") or kind
    return f"{mark} {local(item['created_at'])} {where}{what}: {_line(item['title'], 160)}{notes}"


def _whole(row: dict[str, Any]) -> Iterator[str]:
    yield f"{_hit(row)} (session S{row['session_id']})"
    for text in (row["subtitle"], row["narrative"]):
        if text:
            yield cut(text, LONGEST)
    yield from (f"- {_line(fact, 500)}" for fact in row["facts"])
    labels = {"files_modified": "Changed", "files_read": "Read", "concepts": "Concepts", "changed": "Changed since"}
    for name, label in labels.items():
        if row.get(name):
            yield f"{label}: {_line(', '.join(row[name]), 1000)}"


def _session_line(row: dict[str, Any]) -> str:
    asked = row["title"] or row["first_user_prompt"] or ("(private)" if row["prompt_counter"] else "(no prompt)")
    return f"S{row['id']} {local(row['last_event_at'])} {_line(row['project'], 60)} {row['agent']}: {_line(asked, 160)}"


def _session(row: dict[str, Any]) -> Iterator[str]:
    yield f"{_session_line(row)} ({row['status']}, {row['agent']} id {_line(row['content_session_id'], 100)})"
    summaries = {s["prompt_number"]: s for s in row["summaries"] if s["source"] == "stop"}
    for prompt in row["prompts"][-50:]:
        number = prompt["prompt_number"]
        yield f"{number}. Asked: {'(private)' if prompt['is_private'] else _line(prompt['prompt'], 300)}"
        told = summaries.get(number, {})
        for label, name in (("Done", "completed"), ("Learned", "learned"), ("Next", "next_steps")):
            if text := _line(told.get(name), 300):
                yield f"   {label}: {text}"
        yield from (f"   {_hit(o)}" for o in reversed(row["observations"]) if o["prompt_number"] == number)
    if not row["prompts"]:
        yield from (_hit(o) for o in reversed(row["observations"][:50]))
