"""Calls the worker over its socket. Near side: standard library only."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from backstory.errors import BackstoryError, WorkerAway


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
        # Longer than a socket's path may be: reach it through its folder.
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)


class Client:
    """One call at a time to the worker of a data directory."""

    def __init__(self, path: Path, timeout: float = 30.0) -> None:
        self._path, self._timeout = path, timeout

    def get(self, route: str, /, **query: Any) -> Any:
        asked = {name: value for name, value in query.items() if value not in (None, "")}
        return self._call("GET", f"{route}?{urlencode(asked, errors='replace')}")  # a shell may pass any bytes

    def lines(self, route: str) -> Iterator[bytes]:
        """An answer that may be larger than memory, line by line."""
        connection = _Connection(self._path, self._timeout)
        try:
            connection.request("GET", route)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise BackstoryError(f"The worker answered {answer.status}.")
            yield from answer
        except (OSError, http.client.HTTPException):
            raise WorkerAway from None
        finally:
            connection.close()

    def post(self, route: str, body: Mapping[str, Any] | None = None) -> Any:
        return self._call("POST", route, json.dumps(body or {}).encode())

    def patch(self, route: str, body: Mapping[str, Any]) -> Any:
        return self._call("PATCH", route, json.dumps(body).encode())

    def _call(self, method: str, route: str, body: bytes | None = None) -> Any:
        connection = _Connection(self._path, self._timeout)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            connection.request(method, route, body, headers)
            answer = connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException):
            raise WorkerAway from None
        finally:
            connection.close()
        is_json = answer.headers.get_content_type() == "application/json"
        value = json.loads(raw) if is_json and raw else raw.decode()
        if answer.status >= 400:
            told = value if isinstance(value, dict) else {}
            error = BackstoryError(told.get("error", f"The worker answered {answer.status}."), told.get("hint", ""))
            error.status = answer.status
            raise error
        return value
