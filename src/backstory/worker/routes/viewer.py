"""Routes of the page: its files, which need no credential, and how a browser signs in."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from starlette.responses import Response

from backstory.errors import Refused
from backstory.worker.endpoints import Call, Endpoint, Json, needs_admin, needs_public
from backstory.worker.viewer.assets import Assets
from backstory.worker.viewer.browsers import SESSION_S, Browsers, is_of_another_user


class Code(msgspec.Struct):
    code: Annotated[str, msgspec.Meta(max_length=100)] = ""


class BrowserSession(msgspec.Struct):
    """What a page sends as `Authorization: Backstory-Session …`, and the seconds until it expires."""

    session: str
    expires_in: int


class ViewerRoutes:
    """The routes of the page."""

    def __init__(self, browsers: Browsers) -> None:
        self._browsers, self._assets = browsers, Assets()

    def table(self) -> list[Endpoint]:
        return [
            needs_public("GET", "/", self.page, media="text/html"),
            needs_public("GET", "/assets/{name}", self.file, media="*/*"),
            needs_admin("POST", "/api/open", self.code, Code),
            needs_public("POST", "/open", self.open, BrowserSession, Code),
        ]

    async def page(self, call: Call) -> Response:
        """Show the page, which holds nothing of the memory."""
        return await asyncio.to_thread(self._assets.page, call.request.headers.get("if-none-match", ""))

    async def file(self, call: Call) -> Response:
        """Return a script or a style of the page."""
        name = str(call.request.path_params["name"])
        return await asyncio.to_thread(self._assets.file, name, call.request.headers.get("if-none-match", ""))

    async def code(self, call: Call) -> Code:
        """Create a code that signs a browser in once."""
        return Code(self._browsers.make_code())

    async def open(self, call: Call) -> Response:
        """Exchange a code for the session of a browser."""
        client = call.request.client
        if client is not None and await asyncio.to_thread(is_of_another_user, client.host, client.port):
            raise Refused("The request comes from another user of this machine.", "Use your own browser.")
        session = await asyncio.to_thread(self._browsers.exchange, call.body.code)
        if session is None:
            raise Refused("This link was used already, or it has expired.", "Run `backstory open` again.")
        return Json(BrowserSession(session, int(SESSION_S)), headers={"Cache-Control": "no-store"})
