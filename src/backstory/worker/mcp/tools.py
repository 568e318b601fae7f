"""The tools of the Model Context Protocol. Each is a row: it calls a route and answers in few tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request

from backstory import ids
from backstory.capture import bodies
from backstory.capture.processes import processes
from backstory.errors import BadInput, NotFound
from backstory.labels import labelled, unlabelled, unlabelled_lines, without_commits
from backstory.model import ClaimMark
from backstory.text import cut, harmless, local
from backstory.worker.endpoints import Endpoint, perform
from backstory.worker.principal import Principal

#: Characters of one text in an answer. `backstory show` prints longer ones in full.
LONGEST = 8000
#: An id as a tool prints it: 12 or #12 is an observation, S12 a session.
Id = Annotated[int, Meta(ge=1, le=2**62)] | str
#: The id of an observation. The schema asks for a number, which is shorter; a text that holds one is taken as well.
_INTEGER = {"type": "integer"}
Number = Annotated[Id, Meta(extra_json_schema={"shown": _INTEGER})]
NumberOrNone = Annotated[Id | None, Meta(extra_json_schema={"shown": {"anyOf": [_INTEGER, {"type": "null"}]}})]
ProjectOrThis = Annotated[str, Meta(max_length=4096, description="a name or key; default: this one")]
SearchText = Annotated[str, Meta(min_length=1, max_length=20_000, description="names and words; a phrase in quotes")]


class SearchArguments(msgspec.Struct, forbid_unknown_fields=True):
    query: SearchText
    project: ProjectOrThis = ""
    all_projects: bool = False
    kind: Literal["", "observations", "summaries", "prompts", "turns"] = ""
    type: Literal["", "bugfix", "feature", "refactor", "change", "discovery", "decision"] = ""
    file: Annotated[str, Meta(max_length=4096, description="that was read or changed; a path's end is enough")] = ""
    since: Annotated[str, Meta(max_length=40, description="2026-02-21, 2026-02, yesterday or 3d")] = ""
    until: Annotated[str, Meta(max_length=40)] = ""
    limit: Annotated[int, Meta(ge=1, le=50)] = 20


class TimelineArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Number
    before: Annotated[int, Meta(ge=0, le=50)] = 5
    after: Annotated[int, Meta(ge=0, le=50)] = 5


class IdsArguments(msgspec.Struct, forbid_unknown_fields=True):
    ids: Annotated[list[Number], Meta(min_length=1, max_length=20)]


class SessionArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Annotated[Id, Meta(description="its number (12 for S12), or the agent's own id")]


class TurnsArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Id
    segment: Annotated[int, Meta(ge=0, le=2**62, description="1: up to the first compaction …; 0: all")] = 0
    page: Annotated[int, Meta(ge=-(2**62), le=2**62, description="from 1; -1: the last")] = 1


class Context(msgspec.Struct, forbid_unknown_fields=True):
    project: ProjectOrThis = ""


class Remember(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1, max_length=100_000)]
    title: Annotated[str, Meta(max_length=500)] = ""
    type: Literal["bugfix", "feature", "refactor", "change", "discovery", "decision"] = "decision"
    project: ProjectOrThis = ""


class Pin(msgspec.Struct, forbid_unknown_fields=True):
    ids: Annotated[list[Number], Meta(min_length=1, max_length=20)]
    pinned: bool = True


class HideArguments(msgspec.Struct, forbid_unknown_fields=True):
    ids: Annotated[list[Id], Meta(min_length=1, max_length=20)]
    undo: bool = False


class Supersede(msgspec.Struct, forbid_unknown_fields=True):
    old: Number
    new: NumberOrNone


class FindSessions(msgspec.Struct, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=20_000, description="the topic; empty for the newest")] = ""
    project: ProjectOrThis = ""
    all_projects: bool = False
    limit: Annotated[int, Meta(ge=1, le=50)] = 10


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a tool, and its working directory."""

    principal: Principal
    cwd: str  #: empty if it is not known


@dataclass(frozen=True, slots=True)
class Tool:
    """A row of the table of tools."""

    name: str
    description: str
    arguments: type[msgspec.Struct]
    run: Callable[[Any, Caller], Awaitable[str]]  #: takes the arguments, returns the answer
    changes: bool = False  #: it writes
    destroys: bool = False  #: it deletes
    fenced: bool = False  #: the answer has its own fence

    @property
    def takes(self) -> tuple[str, ...]:
        return self.arguments.__struct_fields__

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments. It is short, because every session pays for its tokens."""
        _, components = msgspec.json.schema_components([self.arguments])
        schema: dict[str, Any] = _shortened(components[self.arguments.__name__])
        return schema


class Tools:
    """The tools, over the worker's route table."""

    def __init__(self, table: Sequence[Endpoint]) -> None:
        self._routes = {(endpoint.method, endpoint.path): endpoint for endpoint in table}
        rows = (
            Tool(
                "search",
                "Find what earlier sessions did, learned or decided. Step 1 of 3: an index (#id, date, title). "
                "Then `timeline` for what happened around one, `get_observations` for the few that matter in full.",
                SearchArguments,
                self.search,
            ),
            Tool("timeline", "Step 2: what happened around an observation.", TimelineArguments, self.timeline),
            Tool("get_observations", "Step 3: observations in full, by id.", IdsArguments, self.get_observations),
            Tool("get_session", "A session: its prompts and results.", SessionArguments, self.get_session),
            Tool(
                "get_turns",
                "What was said in a session, word for word, in pages, with a line per tool use.",
                TurnsArguments,
                self.get_turns,
            ),
            Tool("find_sessions", "Sessions about a topic, or the newest.", FindSessions, self.find_sessions),
            Tool("session_context", "The context of a new session.", Context, self.session_context, fenced=True),
            Tool(
                "remember",
                "Store a decision, fact or lesson for later sessions. One thing in plain words.",
                Remember,
                self.remember,
                changes=True,
            ),
            Tool("pin", "Show observations to every later session, or stop that.", Pin, self.pin, changes=True),
            Tool(
                "supersede",
                "Replace an older observation by a newer one. The older one becomes history (new null: undo).",
                Supersede,
                self.supersede,
                changes=True,
            ),
            Tool(
                "hide",
                "Take observations (12) or sessions (S3) out of context and search, or bring them back (undo).",
                HideArguments,
                self.hide,
                changes=True,
            ),
            Tool(
                "forget",
                "Delete observations and what only they say, for good. Only when the user asks for it.",
                IdsArguments,
                self.forget,
                changes=True,
                destroys=True,
            ),
        )
        self.rows = {tool.name: tool for tool in rows}

    async def call(self, name: str, arguments: Any, caller: Caller) -> str:
        """Run a tool and return its answer."""
        tool = self.rows.get(name)
        if tool is None:
            raise NotFound(f"There is no tool {name[:80]}.")
        # Stripped like the body of a request: nothing private goes further.
        stripped = await processes.read(bodies.strip, msgspec.json.encode(arguments or {}))
        if isinstance(stripped, dict) and (unknown := [each for each in stripped if each not in tool.takes]):
            raise BadInput(f"{name} has no argument `{_line(unknown[0], 80)}`. It takes: {', '.join(tool.takes)}.")
        answer = await tool.run(_convert(stripped, tool.arguments), caller)
        return answer if tool.fenced else harmless(answer)

    async def _request(self, caller: Caller, method: str, path: str, values: Any = None, **path_params: Any) -> Any:
        """Call a route for the caller, as an HTTP request would. `values` are its body or its query."""
        endpoint = self._routes[method, path]

        async def read() -> tuple[Any, Any]:
            return _convert(values, endpoint.body), _convert(values, endpoint.query)

        request = Request({"type": "http", "headers": [], "path_params": path_params})
        answer = await perform(endpoint, caller.principal, request, read)
        return msgspec.to_builtins(answer) if isinstance(answer, msgspec.Struct) else answer

    async def search(self, arguments: SearchArguments, caller: Caller) -> str:
        query = msgspec.to_builtins(arguments)
        query["cwd"] = "" if query.pop("all_projects") else caller.cwd
        # The prompt that the caller answers says nothing new to it, and would be found first.
        page = await self._request(caller, "GET", "/api/search", query | {"ended": True})
        lines = [_item_line(item) for item in page["items"]]
        if page["next"]:
            lines.append("(there are more: narrow the search)")
        if page["elsewhere"]:
            results = f"{page['elsewhere']} result{'' if page['elsewhere'] == 1 else 's'}"
            lines.append(f"Nothing was found in this project. all_projects finds {results} in others.")
        return "\n".join(lines) or page["note"] or "Nothing was found."

    async def timeline(self, arguments: TimelineArguments, caller: Caller) -> str:
        query = {"anchor": str(_number(arguments.id)), "before": arguments.before, "after": arguments.after}
        items = (await self._request(caller, "GET", "/api/timeline", query))["items"]
        return "\n".join(("> " if item["is_anchor"] else "  ") + _item_line(item) for item in items)

    async def get_observations(self, arguments: IdsArguments, caller: Caller) -> str:
        numbers = _numbers(arguments.ids)
        items = (await self._request(caller, "POST", "/api/observations/batch", {"ids": numbers}))["items"]
        missing = [number for number in numbers if number not in {item["id"] for item in items}]
        if not items:
            raise NotFound(f"There is no observation {', '.join(map(str, missing))}.")
        parts = ["\n".join(_observation_lines(item)) for item in items]
        return "\n\n".join([*parts, *(f"There is no observation {number}." for number in missing)])

    async def get_session(self, arguments: SessionArguments, caller: Caller) -> str:
        row = await self._request(caller, "GET", "/api/sessions/{id}", id=str(arguments.id))
        return "\n".join(_session_lines(row))

    async def get_turns(self, arguments: TurnsArguments, caller: Caller) -> str:
        query = {"segment": arguments.segment, "page": arguments.page}
        page = await self._request(caller, "GET", "/api/sessions/{id}/turns/text", query, id=str(arguments.id))
        segment = f"segment {page['segment']} of {page['segments']}, " if page["segment"] else ""
        more = "" if page["page"] == page["pages"] else f"\n\n(page {page['page'] + 1} goes on)"
        return f"S{page['session_id']}, {segment}page {page['page']} of {page['pages']}\n\n{page['text']}{more}"

    async def find_sessions(self, arguments: FindSessions, caller: Caller) -> str:
        cwd = "" if arguments.all_projects else caller.cwd
        query = {"project": arguments.project, "cwd": cwd, "limit": arguments.limit}
        if words := arguments.query.strip():
            page = await self._request(caller, "GET", "/api/sessions/search", query | {"words": words, "ended": True})
        else:
            page = await self._request(caller, "GET", "/api/sessions", query)
        elsewhere = " all_projects looks in others." if cwd and not arguments.project else ""
        return "\n".join(map(_session_line, page["items"])) or f"Nothing was found.{elsewhere}"

    async def session_context(self, arguments: Context, caller: Caller) -> str:
        if not arguments.project and not caller.cwd:
            raise BadInput("Name a project.")
        query = {"project": arguments.project, "cwd": caller.cwd}
        return bytes((await self._request(caller, "GET", "/api/context/inject", query)).body).decode()

    async def remember(self, arguments: Remember, caller: Caller) -> str:
        if not arguments.project and not caller.cwd:
            raise BadInput("Name the project that this is about.")
        body = {**msgspec.to_builtins(arguments), "cwd": caller.cwd}
        row = await self._request(caller, "POST", "/api/memories", body)
        return f"Remembered for {_line(row['project'], 80)}: {_item_line(row)}"

    async def pin(self, arguments: Pin, caller: Caller) -> str:
        rows = [await self._edit(caller, number, {"pinned": arguments.pinned}) for number in _numbers(arguments.ids)]
        return "\n".join(f"{'Pinned' if arguments.pinned else 'No longer pinned'}: {_item_line(row)}" for row in rows)

    async def supersede(self, arguments: Supersede, caller: Caller) -> str:
        new = None if arguments.new is None else _number(arguments.new)
        row = await self._edit(caller, _number(arguments.old), {"superseded_by": new})
        return _item_line(row) if new else f"No longer superseded: {_item_line(row)}"

    async def _edit(self, caller: Caller, number: int, changes: dict[str, Any]) -> Any:
        return await self._request(caller, "PATCH", "/api/observations/{id:int}", changes, id=number)

    async def hide(self, arguments: HideArguments, caller: Caller) -> str:
        whole = {mark: number for mark in arguments.ids if (number := ids.session_number(str(mark))) is not None}
        single = _numbers([mark for mark in arguments.ids if mark not in whole])
        body = {"ids": single, "sessions": list(whole.values()), "undo": arguments.undo}
        page = await self._request(caller, "POST", "/api/hide", body)
        lines = [*map(_item_line, page["observations"]), *(f"S{row['id']}" for row in page["sessions"])]
        return f"{'Shown again' if arguments.undo else 'Hidden'}: " + "\n".join(lines)

    async def forget(self, arguments: IdsArguments, caller: Caller) -> str:
        gone = await self._request(caller, "POST", "/api/forget", {"ids": _numbers(arguments.ids)})
        answer = f"Forgotten: {', '.join(f'#{number}' for number in gone['observations'])}."
        beside = ", ".join(f"#{number}" for number in gone["beside"][:20])
        return answer + (f" These come from the same events and stay: {beside}." if beside else "")


def _numbers(marks: Sequence[int | str]) -> list[int]:
    return list(dict.fromkeys(map(_number, marks)))


def _number(mark: int | str) -> int:
    """Return the number of an observation. Models write 12, "12" and "#12"."""
    if isinstance(mark, int):
        return mark
    name = mark.strip()
    if ids.session_number(name) is not None:
        raise BadInput(f"{_line(name, 20)} is a session, not an observation. `get_session` shows it.")
    number = ids.number(name.removeprefix("#"))
    if not number:
        raise BadInput(f"`{_line(name, 40)}` is not an id. An id is a number, as `search` prints it.")
    return number


def _convert(value: Any, shape: type | None) -> Any:
    try:
        return msgspec.convert(value, shape) if shape else None
    except msgspec.ValidationError as error:
        raise BadInput(f"{error}.") from None


def _shortened(schema: Any) -> Any:
    """Return a schema without limits that are rarely reached and without empty defaults. They are checked anyway."""
    if isinstance(schema, dict):
        left_out = ("title", "maxLength", "minLength", "minItems", "minimum", "additionalProperties")
        empty: dict[str, tuple[Any, ...]] = {"default": ("", False), "maximum": (2**62,), "required": ([],)}
        if "shown" in schema:
            return schema["shown"]
        return {k: _shortened(v) for k, v in schema.items() if k not in left_out and v not in empty.get(k, ())}
    return [_shortened(item) for item in schema] if isinstance(schema, list) else schema


def _line(text: str | None, limit: int) -> str:
    return cut(unlabelled(text or ""), limit)


def _item_line(item: dict[str, Any]) -> str:
    """Format a row as one line: the id to ask for it, time, project, type and title."""
    kind = item.get("kind", "observation")
    mark = f"#{item['id']}" if kind == "observation" else f"S{item['session_id']}"
    project = f"{_line(item.get('project'), 60)} " if item.get("project") else ""
    notes = " [pinned]" if item.get("pinned_at") else ""
    notes += f" [replaced by #{item['superseded_by']}]" if item.get("superseded_by") else ""
    label = item.get("type") or kind
    title = cut(labelled(ClaimMark(item.get("mark") or ""), item["title"] or ""), 160)
    return f"{mark} {local(item['created_at'])} {project}{label}: {title}{notes}"


def _observation_lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"{_item_line(row)} (session S{row['session_id']})"
    for text in (row["subtitle"], row["narrative"]):
        if text:
            yield cut(unlabelled_lines(text), LONGEST)
    if row.get("asked"):
        yield f"Asked: {without_commits(unlabelled(row['asked']))}"
    facts = zip(row["fact_marks"], row["facts"], strict=True)
    yield from (f"- {cut(labelled(mark, fact), 500)}" for mark, fact in facts)
    if row.get("answered"):
        yield f"Answered then: {without_commits(unlabelled(row['answered']))}"
    labels = {"files_modified": "Changed", "files_read": "Read", "concepts": "Concepts", "changed": "Changed since"}
    for name, label in labels.items():
        if row.get(name):
            yield f"{label}: {_line(', '.join(row[name]), 1000)}"


def _session_line(row: dict[str, Any]) -> str:
    where = f"{local(row['last_event_at'])} {_line(row['project'], 60)} {row['agent']}"
    return f"S{row['id']} {where}: {_line(row['title'], 160)}"


def _session_lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"{_session_line(row)} ({row['status']}, {row['agent']} id {_line(row['content_session_id'], 100)})"
    summaries = {s["prompt_number"]: s for s in row["summaries"] if s["source"] == "stop"}
    for prompt in row["prompts"][-50:]:
        number = prompt["prompt_number"]
        yield f"{number}. Asked: {'(private)' if prompt['is_private'] else _line(prompt['prompt'], 300)}"
        summary = summaries.get(number, {})
        for label, name in (("Done", "completed"), ("Learned", "learned"), ("Next", "next_steps")):
            if text := _line(summary.get(name), 300):
                yield f"   {label}: {text}"
        yield from (f"   {_item_line(o)}" for o in reversed(row["observations"]) if o["prompt_number"] == number)
    if len(row["segments"]) > 1:
        yield f"It was compacted: `get_turns` reads its segments 1 to {len(row['segments'])}."
    if not row["prompts"]:
        yield from (_item_line(o) for o in reversed(row["observations"][:50]))
