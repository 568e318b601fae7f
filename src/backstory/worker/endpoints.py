"""What a row of the route table is, and how it is served. The rows are in `table()` of the files in `routes/`."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, TypeVar

import msgspec
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from backstory import gate, ids
from backstory.capture import bodies
from backstory.capture.bodies import MAX_BYTES
from backstory.capture.processes import processes
from backstory.errors import BackstoryError, BadInput, Broken, Forbidden, NotFound, TooLarge
from backstory.jobs import place_of
from backstory.project import of_group
from backstory.store.confined import confined_to
from backstory.worker.principal import Principal, Scope

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Other names of a field, which clients of earlier memory programs send.
ALIASES: dict[str, tuple[str, ...]] = {
    "session_id": ("claudeSessionId", "contentSessionId", "sessionId", "claude_session_id", "content_session_id"),
    "prompt": ("userPrompt", "user_prompt"),
    "prompt_number": ("promptNumber",),
    "is_processing": ("isProcessing",),
    "tool_use_id": ("toolUseId",),
    "event_id": ("eventId",),
}


class RowNumber(IntegerConvertor):
    """`{id:int}` in a path, with as many digits as `ids.number` accepts. A longer number matches no route."""

    regex = "[0-9]{1,18}"


register_url_convertor("int", RowNumber())


class Json(JSONResponse):
    """A JSON response, encoded by msgspec."""

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


class Failure(msgspec.Struct):
    """An error: what went wrong, and what to do about it."""

    error: str
    hint: str


@dataclass(frozen=True, slots=True)
class Call:
    """A request that its caller may make, with its body and query as types. Only `perform` creates one."""

    request: Request
    principal: Principal
    body: Any = None
    query: Any = None

    def number(self, name: str) -> int:
        """Return a number of the path. One that is out of range is not found."""
        value = ids.number(str(self.request.path_params[name]))
        if value is None:
            raise NotFound
        return value


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A row of the route table. `needs_read` and the functions beside it create one."""

    method: str
    path: str
    run: Callable[[Call], Awaitable[Any]]
    answer: type | None = None
    body: type | None = None
    query: type | None = None
    status: int = 200
    media: str = "application/json"
    read: Callable[[bytes], Any] = bodies.strip  #: decodes the body, and cleans it unless its parts are cleaned later
    bare: bool = False  #: also served without the `/api` prefix, as earlier memory programs do
    fails: tuple[int, ...] = ()  #: further statuses of errors, for the OpenAPI document
    is_confinable: bool = False  #: leaves out the rows of other groups, if its caller is confined to one
    _: KW_ONLY
    needs: Scope  #: the scope that its caller must have

    @property
    def summary(self) -> str:
        """The docstring of the handler: one line, shown in the OpenAPI document."""
        return self.run.__doc__ or ""

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path, self.path.removeprefix("/api")) if self.bare else (self.path,)


needs_public = functools.partial(Endpoint, needs=Scope.PUBLIC)
needs_read = functools.partial(Endpoint, needs=Scope.READ)
needs_capture = functools.partial(Endpoint, needs=Scope.CAPTURE)
needs_write = functools.partial(Endpoint, needs=Scope.WRITE)
needs_admin = functools.partial(Endpoint, needs=Scope.ADMIN)


def routes(table: Sequence[Endpoint]) -> list[Route]:
    """Return the table as Starlette routes. A path can have several methods."""
    return [Route(path, _handler(endpoint), methods=[endpoint.method]) for endpoint in table for path in endpoint.paths]


def _handler(endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        async def read() -> tuple[Any, Any]:
            body = None
            if endpoint.body:
                body = await processes.read(endpoint.read, await read_bytes(request))
                # A reader of a type of its own has converted the body, beside the worker if it is large.
                body = body if isinstance(body, msgspec.Struct) else to_body(body, endpoint.body)
            return body, _to_query(request, endpoint.query) if endpoint.query else None

        try:
            result = await perform(endpoint, request.scope["principal"], request, read)
        except BackstoryError as error:
            return error_response(error)
        except Exception as error:
            log.error("%s %s failed: %s", endpoint.method, endpoint.path, place_of(error))
            return error_response(Broken())
        return result if isinstance(result, Response) else Json(result, status_code=endpoint.status)

    return handle


async def perform(
    endpoint: Endpoint, principal: Principal, request: Request, read: Callable[[], Awaitable[tuple[Any, Any]]]
) -> Any:
    """Run an endpoint for a caller. Scopes are enforced only here, before `read` reads the body and the query."""
    if not principal.may(endpoint.needs, endpoint.is_confinable):
        raise Forbidden(f"This needs the scope `{endpoint.needs}`, which the caller does not have.")
    group = principal.confined_to
    if group is not None and request.path_params.get("group", group) != group:
        raise Forbidden("The caller is confined to another group.")
    body, query = await read()
    if group is not None:
        body, query = _in_group(body, group), _in_group(query, group)
    with confined_to(group):
        return await endpoint.run(Call(request, principal, body, query))


def confinable(table: Iterable[Endpoint]) -> list[Endpoint]:
    """Return endpoints that read from a `ConfinedStore`, for callers that are confined to a group, too."""
    return [replace(endpoint, is_confinable=True) for endpoint in table]


def _in_group(asked: Any, group: str) -> Any:
    """Return a body or a query that asks for the rows of a group, whatever project it named."""
    own = {"project": of_group(group).key, "cwd": ""}
    return msgspec.structs.replace(asked, **{n: v for n, v in own.items() if hasattr(asked, n)}) if asked else asked


def error_response(error: BackstoryError) -> Response:
    """Return an error as JSON: its message and its hint."""
    headers = {"Retry-After": "1"} if error.status in (429, 503) else {}
    return Json(Failure(str(error), error.hint), status_code=error.status, headers=headers)


async def read_bytes(request: Request) -> bytes:
    """Read the body, up to the largest size that is accepted."""
    declared = ids.number(request.headers.get("content-length", "0"))
    if declared is None or declared > MAX_BYTES:
        raise TooLarge
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BYTES:
            raise TooLarge
        chunks.append(chunk)
    return b"".join(chunks)


def to_body(value: Any, shape: type[T]) -> T:
    """Convert a decoded body to its type."""
    if isinstance(value, dict):
        value = _without_aliases(value, shape)
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise BadInput(f"The body is not valid: {error}.", "See /openapi.json for the body of this route.") from None


@functools.cache
def _aliases(shape: type) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((f.name, ALIASES[f.name]) for f in msgspec.structs.fields(shape) if f.name in ALIASES)


def _without_aliases(value: dict[str, Any], shape: type) -> dict[str, Any]:
    """Return a body with each field under its own name."""
    renamed = dict(value)
    for name, aliases in _aliases(shape):
        for alias in aliases:
            if alias in renamed:
                given = renamed.pop(alias)
                if renamed.setdefault(name, given) != given:
                    raise BadInput(f"`{alias}` and another name of the same field differ.", "Send only one of them.")
    return renamed


def _to_query(request: Request, shape: type) -> Any:
    # Odd characters are replaced, not removed: a filter that becomes empty would match everything.
    values = {name: gate.ODD.sub("\ufffd", value) for name, value in request.query_params.items()}
    try:
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"The query is not valid: {error}.", "See /openapi.json for the query of this route.") from None


def openapi(table: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of a route table."""
    shapes = {shape for e in table for shape in (e.body, e.answer) if shape} | {Failure}
    ordered = sorted(shapes, key=lambda shape: shape.__name__)
    schemas, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    by_shape = dict(zip(ordered, schemas, strict=True))
    for shape in (e.body for e in table if e.body):
        _add_aliases(components[shape.__name__], shape)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in table:
        for path in endpoint.paths:
            plain = re.sub(r":\w+\}", "}", path)
            paths.setdefault(plain, {})[endpoint.method.lower()] = _operation(endpoint, path, by_shape)
    return {
        "openapi": "3.1.0",
        "info": {"title": "backstory", "version": version, "description": "Memory for AI coding agents."},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }


def _add_aliases(schema: dict[str, Any], shape: type) -> None:
    """Add the other names of each field to a schema. A required field is required under any of its names."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    for name, aliases in _aliases(shape):
        for alias in aliases:
            properties[alias] = {**properties[name], "description": f"The same as `{name}`."}
        if name in required:
            required.remove(name)
            schema.setdefault("allOf", []).append({"anyOf": [{"required": [n]} for n in (name, *aliases)]})
    if not required:
        schema.pop("required", None)


def _operation(endpoint: Endpoint, path: str, by_shape: dict[type, Any]) -> dict[str, Any]:
    failed = {"content": {"application/json": {"schema": by_shape[Failure]}}}
    content = {"schema": by_shape[endpoint.answer]} if endpoint.answer else {}
    answer: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.answer or endpoint.media != "application/json":
        answer["content"] = {endpoint.media: content}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "description": f"Needs the scope `{endpoint.needs}`.",
        "operationId": re.sub(r"\W+", "_", f"{endpoint.method.lower()}{path}").strip("_"),
        "responses": {str(endpoint.status): answer},
    }
    codes = {401, 403, 429, *endpoint.fails}
    codes |= {400} if endpoint.body or endpoint.query else set()
    codes |= {413, 503} if endpoint.body else set()
    codes |= {404} if "{" in path else set()
    for code in sorted(codes):
        operation["responses"][str(code)] = {"description": "Refused. `error` says why, `hint` what to do.", **failed}
    operation["parameters"] = _parameters(endpoint, path)
    if endpoint.body:
        content = {"schema": by_shape[endpoint.body]}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    if endpoint.needs is Scope.PUBLIC:
        operation["security"] = []
    return operation


def _parameters(endpoint: Endpoint, path: str) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    for name, kind in re.findall(r"\{(\w+)(?::(\w+))?\}", path):
        schema = {"type": "integer", "minimum": 0} if kind == "int" else {"type": "string"}
        parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
    if endpoint.query:
        _, components = msgspec.json.schema_components([endpoint.query])
        fields = components[endpoint.query.__name__]
        for name, schema in fields.get("properties", {}).items():
            is_required = name in fields.get("required", [])
            parameters.append({"name": name, "in": "query", "required": is_required, "schema": schema})
    return parameters
