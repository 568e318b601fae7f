"""HTTP client for the worker, over its Unix socket. Standard library only."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from backstory.errors import BackstoryError, WorkerAway

#: Headers of a request with a body.
_HEADERS = {"Content-Type": "application/json"}


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        name = str(self._path)
        if len(name.encode()) < 100:
            self.sock.connect(name)
            return
        # The path is longer than a socket address may be, so open its directory and connect through that.
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)


class Client:
    """Sends requests to the worker. Each request opens its own connection."""

    def __init__(self, path: Path, timeout: float = 30.0) -> None:
        self._path, self._timeout = path, timeout

    def get(self, route: str, /, **query: Any) -> Any:
        params = {name: value for name, value in query.items() if value not in (None, "")}
        return self._call("GET", f"{route}?{urlencode(params, errors='replace')}")  # may hold invalid UTF-8

    def items(self, route: str, /, **query: Any) -> Iterator[dict[str, Any]]:
        return items_of(self.get, route, **query)

    def lines(self, route: str) -> Iterator[bytes]:
        """Stream a response line by line; it may be larger than memory."""
        return self._stream("GET", route)

    def post(self, route: str, body: Mapping[str, Any] | None = None) -> Any:
        return self._call("POST", route, json.dumps(body or {}).encode())

    def events(self, route: str, body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Send a request that is answered by events, and yield each with its name as it comes."""
        name = ""
        with contextlib.closing(self._stream("POST", route, json.dumps(body).encode())) as lines:
            for line in lines:
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    yield name, json.loads(value)

    def patch(self, route: str, body: Mapping[str, Any]) -> Any:
        return self._call("PATCH", route, json.dumps(body).encode())

    def delete(self, route: str, /, **query: Any) -> Any:
        return self._call("DELETE", f"{route}?{urlencode(query, errors='replace')}")

    def _stream(self, method: str, route: str, body: bytes | None = None) -> Generator[bytes]:
        connection = _Connection(self._path, self._timeout)
        try:
            connection.request(method, route, body, _HEADERS if body is not None else {})
            response = connection.getresponse()
            if response.status >= 400:
                raise _error(response.status, json.loads(response.read()))
            yield from response
        except (OSError, http.client.HTTPException):
            raise WorkerAway from None
        finally:
            connection.close()

    def _call(self, method: str, route: str, body: bytes | None = None) -> Any:
        connection = _Connection(self._path, self._timeout)
        try:
            connection.request(method, route, body, _HEADERS if body is not None else {})
            response = connection.getresponse()
            raw = response.read()
        except (OSError, http.client.HTTPException):
            raise WorkerAway from None
        finally:
            connection.close()
        is_json = response.headers.get_content_type() == "application/json"
        value = json.loads(raw) if is_json and raw else raw.decode()
        if response.status >= 400:
            raise _error(response.status, value)
        return value


def _error(status: int, value: Any) -> BackstoryError:
    """Return what the worker says is wrong."""
    details = value if isinstance(value, dict) else {}
    message = details.get("error", f"The worker answered {status}.")
    error = BackstoryError(message, details.get("hint", ""))
    error.status = status
    return error


def items_of(get: Callable[..., Any], route: str, **query: Any) -> Iterator[dict[str, Any]]:
    """Yield the items of a list, which `get` reads page by page."""
    cursor = ""
    while True:
        page = get(route, **query, cursor=cursor)
        yield from page["items"]
        if not (cursor := page["next"] or ""):
            return
