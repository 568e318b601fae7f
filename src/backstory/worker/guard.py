"""Authenticates requests: over the socket its owner, over TCP the holder of the token or of a browser's session."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
import time
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from backstory.errors import BackstoryError, BadInput, BadSetting, Refused, Stranger, TooMany
from backstory.paths import locked, write_private
from backstory.settings import Settings
from backstory.worker.endpoints import error_response
from backstory.worker.principal import ANONYMOUS, OWNER, Principal
from backstory.worker.viewer.browsers import Browsers

#: Paths that need no credential. Who has none learns only that the worker is there.
OPEN_PATHS = frozenset({"/api/health", "/health"})
#: Headers that decide who may ask. Of two, a proxy or a library may believe the one, and we the other.
SINGLE = ("host", "origin", "authorization", "content-length", "sec-fetch-site")
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")
#: The route that exchanges a code for a session. It needs no credential either.
OPEN_ROUTE = ("POST", "/open")
#: The scheme in `Authorization` of the page's requests. It differs from that of the token.
SESSION = "backstory-session"
#: The page, and where its files are. They hold nothing of the memory.
PAGE = "/"
ASSETS = "/assets/"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
#: Requests per second over TCP from all callers without a credential together.
STRANGERS_PER_SECOND = 1000


def make_token(path: Path) -> str:
    """Return the token. Create it at the first start."""
    with locked(path.parent):
        try:
            token = path.read_text("ascii").strip()
        except FileNotFoundError:
            token = ""
        if not token:
            token = secrets.token_urlsafe(32)
            write_private(path, token.encode())
    return token


def check_binding(settings: Settings) -> None:
    """Refuse to listen beyond this machine without authentication."""
    if settings.auth == "off" and settings.host not in LOOPBACK:
        raise BadSetting(
            f"The worker does not listen on {settings.host} without authentication.",
            "Set `auth` to on, or `host` to 127.0.0.1.",
        )


class Rate:
    """A limit of requests per second (token bucket)."""

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
        # Separate limits: callers without a credential cannot use up the owner's.
        self._owner = Rate(settings.tuning.requests_per_second)
        self._strangers = Rate(min(settings.tuning.requests_per_second, STRANGERS_PER_SECOND))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                scope["principal"] = self._resolve(scope)
            except BackstoryError as error:
                await error_response(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _resolve(self, scope: Scope) -> Principal:
        """Return the caller of a request. Raise an error if the request is refused."""
        server = scope.get("server")
        if server and server[1] is None:
            return OWNER  # only the owner can open the socket
        headers = Headers(scope=scope)
        for name in SINGLE:
            if len(headers.getlist(name)) > 1:
                raise BadInput(f"The request has several `{name}` headers.", "Send each header once.")
        scheme, _, credential = headers.get("authorization", "").partition(" ")
        scheme, credential = scheme.lower(), credential.strip()
        by_session = scheme == SESSION and self._browsers.knows(credential)
        by_token = scheme == "bearer" and hmac.compare_digest(credential.encode(), self._token.encode())
        trusted = self._settings.auth == "off" or by_session or by_token
        (self._owner if trusted else self._strangers).count()
        if trusted and "admit" in scope:
            scope["admit"]()
        self._check_host(headers)
        self._check_origin(headers)
        if by_session:
            self._check_page(scope["method"], headers)
        if trusted:
            return OWNER
        if not is_open(scope["method"], scope["path"]):
            raise Refused
        return ANONYMOUS

    def _check_host(self, headers: Headers) -> None:
        """Refuse names of other machines. Another site can bind its name to this machine (DNS rebinding)."""
        match = _HOST.fullmatch(headers.get("host", "").strip().lower())
        name = (match[1] or match[2]) if match else ""
        if name not in self._names and (self._is_local or not _is_address(name)):
            raise Stranger("The Host header names another machine.")

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{headers.get('host', '')}":
            raise Stranger("The request comes from another site's page.")

    def _check_page(self, method: str, headers: Headers) -> None:
        """Refuse a session that another page sends. Browsers send `Origin` with requests that change something."""
        came_from = headers.get("sec-fetch-site", "same-origin")
        if came_from != "same-origin" or (method not in ("GET", "HEAD") and "origin" not in headers):
            raise Stranger("The request comes from another site's page.")


def is_open(method: str, path: str) -> bool:
    """Return whether a route needs no credential, although host and origin are checked."""
    if method in ("GET", "HEAD"):
        return path == PAGE or path in OPEN_PATHS or path.startswith(ASSETS)
    return (method, path) == OPEN_ROUTE


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
