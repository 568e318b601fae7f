"""Decides who gets in, and as whom: the socket's owner, and over TCP whoever has the token or a browser's session."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
import time
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from backstory.errors import BackstoryError, BadSetting, Refused, Stranger, TooMany
from backstory.paths import write_private
from backstory.settings import Settings
from backstory.worker.endpoints import failure
from backstory.worker.principal import ANONYMOUS, OWNER, Principal
from backstory.worker.viewer.browsers import Browsers
from backstory.worker.viewer.page import entrance

#: Paths that need no credential. They tell only that the worker runs and how it is.
OPEN_PATHS = frozenset({"/api/health", "/health"})
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")
#: Exchanges a code for a session, so it needs no credential either.
ENTRANCE = ("POST", "/open")
#: The scheme in `Authorization` of the page's requests. Not Bearer: a session is never taken for the token.
SESSION = "backstory-session"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
#: Requests a second that are taken over TCP from everybody without a credential together.
STRANGERS_PER_SECOND = 1000


def make_token(path: Path) -> str:
    """The token, made at the first start."""
    try:
        token = path.read_text("ascii").strip()
    except FileNotFoundError:
        token = ""
    if not token:
        token = secrets.token_urlsafe(32)
        write_private(path, token.encode())
    return token


def check_binding(settings: Settings) -> None:
    """Beyond this machine only with authentication."""
    if settings.auth == "off" and settings.host not in LOOPBACK:
        raise BadSetting(
            f"Refused to listen on {settings.host} without authentication.",
            "Set `auth` to on, or `host` to 127.0.0.1.",
        )


class Rate:
    """A bucket that fills at the rate that is allowed, up to what may come in one second."""

    def __init__(self, per_second: int) -> None:
        self._rate, self._left, self._counted = per_second, float(per_second), time.monotonic()

    def count(self) -> None:
        now = time.monotonic()
        self._left = min(float(self._rate), self._left + (now - self._counted) * self._rate)
        self._counted = now
        if self._left < 1:
            raise TooMany
        self._left -= 1


class Guard:
    """Checks every request before its route runs, and sets `scope["principal"]` to its caller."""

    def __init__(self, app: ASGIApp, settings: Settings, token: str, browsers: Browsers) -> None:
        self._app, self._settings, self._token, self._browsers = app, settings, token, browsers
        self._is_local = settings.host.lower() in LOOPBACK
        self._names = LOOPBACK | {settings.host.lower()}
        if not self._is_local:
            own = socket.gethostname().lower()
            self._names |= {own, f"{own}.local"}
        # Apart: whoever has no credential can not use up what those who have one may send.
        self._owner = Rate(settings.tuning.requests_per_second)
        self._strangers = Rate(min(settings.tuning.requests_per_second, STRANGERS_PER_SECOND))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                scope["principal"] = self._resolve(scope)
            except BackstoryError as error:
                await self._refuse(scope, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refuse(self, scope: Scope, error: BackstoryError) -> Response:
        """A browser that asks for the page gets one that shows a code, or its session, and else says what to do."""
        if scope["path"] == "/" and "text/html" in Headers(scope=scope).get("accept", ""):
            return entrance(error.status)
        return failure(error)

    def _resolve(self, scope: Scope) -> Principal:
        """Return the caller of a request, or refuse it."""
        server = scope.get("server")
        if server and server[1] is None:
            return OWNER  # the socket: its mode let only the owner connect
        headers = Headers(scope=scope)
        by_session = self._has_session(headers)
        trusted = self._settings.auth == "off" or by_session or self._has_token(headers)
        (self._owner if trusted else self._strangers).count()
        if trusted and "admit" in scope:
            scope["admit"]()
        if scope["path"] in OPEN_PATHS:
            return ANONYMOUS  # even with a credential: the host and the origin are not checked
        self._check_host(headers)
        self._check_origin(headers)
        if by_session:
            self._check_page(scope["method"], headers)
        if trusted:
            return OWNER
        if (scope["method"], scope["path"]) != ENTRANCE:
            raise Refused
        return ANONYMOUS

    def _check_host(self, headers: Headers) -> None:
        """No name that is another site's: it may have been bound to this machine (DNS rebinding)."""
        name = _hostname(headers.get("host", ""))
        if name not in self._names and (self._is_local or not _is_address(name)):
            raise Stranger("The Host header names another machine.")

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{headers.get('host', '')}":
            raise Stranger("The request comes from another site's page.")

    def _check_page(self, method: str, headers: Headers) -> None:
        """A session belongs to our own page, and browsers say where a request that may change something comes from."""
        came_from = headers.get("sec-fetch-site", "same-origin")
        if came_from != "same-origin" or (method not in ("GET", "HEAD") and "origin" not in headers):
            raise Stranger("The request comes from another site's page.")

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode())

    def _has_session(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == SESSION and self._browsers.knows(given.strip())


def _hostname(host: str) -> str:
    """The name or address in a Host header; nothing if it is not in the form of one."""
    found = _HOST.fullmatch(host.strip().lower())
    return (found[1] or found[2]) if found else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
