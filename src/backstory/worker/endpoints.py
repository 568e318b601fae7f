"""A route table: a route is a row, what comes in is checked against a type, and OpenAPI is read off the rows."""

from __future__ import annotations

import functools
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import msgspec
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from backstory import gate, ids
from backstory.capture.bodies import MAX_BYTES, decode, strip, strip_tags
from backstory.errors import BackstoryError, BadInput, Broken, Forbidden, NotFound, TooLarge
from backstory.worker.principal import Principal, Scope

log = logging.getLogger(__name__)

#: One field, many names: what the clients of the seeds call it, and what we do.
ALIASES: dict[str, tuple[str, ...]] = {
    "session_id": ("claudeSessionId", "contentSessionId", "sessionId", "claude_session_id", "content_session_id"),
    "prompt": ("userPrompt", "user_prompt"),
    "prompt_number": ("promptNumber",),
    "is_processing": ("isProcessing",),
    "tool_use_id": ("toolUseId",),
    "event_id": ("eventId",),
}


class RowNumber(IntegerConvertor):
    """`{id:int}` in a path: as long as `ids.number` takes. Longer ones match no route; `int` would fail on some."""

    regex = "[0-9]{1,18}"


register_url_convertor("int", RowNumber())


class Json(JSONResponse):
    """JSON as msgspec writes it."""

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


class Failure(msgspec.Struct):
    """What went wrong, and what to do."""

    error: str
    hint: str


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose caller may make it, with its body and query read. Only `perform` makes one."""

    request: Request
    principal: Principal
    body: Any = None
    query: Any = None

    def number(self, name: str) -> int:
        """A number in the path."""
        value = ids.number(str(self.request.path_params[name]))
        if value is None:
            raise NotFound
        return value


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A row of the route table. `needs_read` and its like make one."""

    method: str
    path: str
    run: Callable[[Call], Awaitable[Any]]
    says: str  #: one sentence, for the OpenAPI document
    answer: type | None = None
    body: type | None = None
    query: type | None = None
    status: int = 200
    media: str = "application/json"
    read: Callable[[Request], Awaitable[Any]] | None = None  #: how the body is read, if not as one payload
    bare: bool = False  #: also without the `/api` prefix, as the seeds have it
    fails: tuple[int, ...] = ()
    _: KW_ONLY
    needs: Scope  #: what its caller must be allowed

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path, self.path.removeprefix("/api")) if self.bare else (self.path,)


needs_public = functools.partial(Endpoint, needs=Scope.PUBLIC)
needs_read = functools.partial(Endpoint, needs=Scope.READ)
needs_capture = functools.partial(Endpoint, needs=Scope.CAPTURE)
needs_write = functools.partial(Endpoint, needs=Scope.WRITE)
needs_admin = functools.partial(Endpoint, needs=Scope.ADMIN)


def routes(table: Sequence[Endpoint]) -> list[Route]:
    """The table as the framework wants it. One path may have several methods."""
    return [Route(path, _handler(endpoint), methods=[endpoint.method]) for endpoint in table for path in endpoint.paths]


def _handler(endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        async def read() -> tuple[Any, Any]:
            body = convert(await (endpoint.read or read_body)(request), endpoint.body) if endpoint.body else None
            return body, _query(request, endpoint.query) if endpoint.query else None

        try:
            result = await perform(endpoint, request.scope["principal"], request, read)
        except BackstoryError as error:
            return failure(error)
        except Exception as error:
            # Our mistake. The log gets the type and the place only: an error's text may quote a payload.
            place = traceback.extract_tb(error.__traceback__)[-1]
            log.error("%s in %s:%s", type(error).__name__, place.filename, place.lineno)
            return failure(Broken())
        return result if isinstance(result, Response) else Json(result, status_code=endpoint.status)

    return handle


async def perform(
    endpoint: Endpoint,
    principal: Principal,
    request: Request,
    read: Callable[[], Awaitable[tuple[Any, Any]]],
) -> Any:
    """Run an endpoint for a caller. Scopes are enforced here and nowhere else, before the body and query are read."""
    if not principal.may(endpoint.needs):
        raise Forbidden(f"This needs the scope `{endpoint.needs}`, which the caller does not have.")
    body, query = await read()
    return await endpoint.run(Call(request, principal, body, query))


def failure(error: BackstoryError) -> Response:
    """One sentence, and what to do."""
    headers = {"Retry-After": "1"} if error.status in (429, 503) else {}
    return Json(Failure(str(error), error.hint), status_code=error.status, headers=headers)


async def read_whole(request: Request) -> Any:
    """The body as it came: for a route that strips it itself, part by part."""
    return decode(await read_bytes(request))


async def read_body(request: Request) -> Any:
    """The body as stripped JSON, or a clear refusal. Nothing private goes further than this."""
    return strip(await read_bytes(request))


async def read_report(request: Request) -> Any:
    """The body of something that becomes a `Report`: without what is between private tags, which are closed in another
    field than they were opened. Secrets are looked for when the report is made."""
    return strip_tags(await read_bytes(request))


async def read_bytes(request: Request) -> bytes:
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


def convert(value: Any, shape: type) -> Any:
    """A decoded body as its type."""
    if isinstance(value, dict):
        value = _canonical(value, shape)
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise BadInput(f"The body does not fit: {error}.", "See /openapi.json for what this route takes.") from None


@functools.cache
def _aliases(shape: type) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((f.name, ALIASES[f.name]) for f in msgspec.structs.fields(shape) if f.name in ALIASES)


def _canonical(value: dict[str, Any], shape: type) -> dict[str, Any]:
    out = dict(value)
    for name, aliases in _aliases(shape):
        for alias in aliases:
            if alias in out:
                given = out.pop(alias)
                if out.setdefault(name, given) != given:
                    raise BadInput(f"`{alias}` and another name of the same field differ.", "Send one of them.")
    return out


def _query(request: Request, shape: type) -> Any:
    # As in a body: a filter that is odd finds nothing, where one that is left out would find all.
    values = {name: gate.ODD.sub("\ufffd", value) for name, value in request.query_params.items()}
    try:
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"The query does not fit: {error}.", "See /openapi.json for what this route takes.") from None


def openapi(table: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """The document, read off the table: it can't say what the routes do not do."""
    shapes = {shape for e in table for shape in (e.body, e.answer) if shape} | {Failure}
    ordered = sorted(shapes, key=lambda shape: shape.__name__)
    schemas, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    by_shape = dict(zip(ordered, schemas, strict=True))
    for shape in (e.body for e in table if e.body):
        _with_aliases(components[shape.__name__], shape)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in table:
        for path in endpoint.paths:
            plain = re.sub(r":\w+\}", "}", path)
            paths.setdefault(plain, {})[endpoint.method.lower()] = _operation(endpoint, path, by_shape)
    return {
        "openapi": "3.1.0",
        "info": {"title": "backstory", "version": version, "description": "Memory for AI coding agents."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _with_aliases(schema: dict[str, Any], shape: type) -> None:
    """Every name that a field goes by; a required one is required under any of them."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    for name in [field.name for field in msgspec.structs.fields(shape)]:
        names = [name, *ALIASES.get(name, ())]
        if len(names) == 1:
            continue
        for alias in names[1:]:
            properties[alias] = {**properties[name], "description": f"The same as `{name}`."}
        if name in required:
            required.remove(name)
            schema.setdefault("allOf", []).append({"anyOf": [{"required": [n]} for n in names]})
    if not required:
        schema.pop("required", None)


def _operation(endpoint: Endpoint, path: str, by_shape: dict[type, Any]) -> dict[str, Any]:
    failed = {"content": {"application/json": {"schema": by_shape[Failure]}}}
    content = {"schema": by_shape[endpoint.answer]} if endpoint.answer else {}
    answer: dict[str, Any] = {"description": endpoint.says}
    if endpoint.answer or endpoint.media != "application/json":
        answer["content"] = {endpoint.media: content}
    operation: dict[str, Any] = {
        "summary": endpoint.says,
        "description": f"Needs the scope `{endpoint.needs}`.",
        "operationId": re.sub(r"\W+", "_", f"{endpoint.method.lower()}{path}").strip("_"),
        "responses": {str(endpoint.status): answer},
    }
    codes = {401, 403, 429, *endpoint.fails}
    codes |= {400} if endpoint.body or endpoint.query else set()
    codes |= {413, 503} if endpoint.body else set()
    codes |= {404} if "{" in path else set()
    for code in sorted(codes):
        operation["responses"][str(code)] = {"description": "Refused: `error` says why, `hint` what to do.", **failed}
    operation["parameters"] = _parameters(endpoint, path)
    if endpoint.body:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": by_shape[endpoint.body]}},
        }
    if endpoint.path == "/api/health":
        operation["security"] = []
    return operation


def _parameters(endpoint: Endpoint, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "minimum": 0} if kind == "int" else {"type": "string"},
        }
        for name, kind in re.findall(r"\{(\w+)(?::(\w+))?\}", path)
    ]
    if endpoint.query:
        _, components = msgspec.json.schema_components([endpoint.query])
        properties = components[endpoint.query.__name__].get("properties", {})
        required = components[endpoint.query.__name__].get("required", [])
        found += [{"name": n, "in": "query", "required": n in required, "schema": s} for n, s in properties.items()]
    return found
