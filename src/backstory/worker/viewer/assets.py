"""The files of the page: what `viewer/` was bundled into, with the headers that keep a browser safe."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from starlette.responses import Response

from backstory.errors import NotFound

#: Where the build puts the files.
FOLDER = Path(__file__).parent / "assets"
#: ending -> media type. A file with another ending is not served.
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; font-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # a browser asks each time, and gets 304
}
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+")
_NOT_BUILT = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>backstory</title>'
    "<p>The viewer was not built with this installation: run <code>make viewer</code> where its source is, or install "
    "a wheel.</p></html>"
)


class Assets:
    """The files, read again when they change."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._read: dict[str, tuple[int, bytes, str]] = {}  #: name -> time of its change, its bytes, its ETag

    def page(self, if_none_match: str = "") -> Response:
        """Return the page, or one sentence if it was not built."""
        try:
            return self.file("index.html", if_none_match)
        except NotFound:
            return Response(_NOT_BUILT, headers=HEADERS, media_type=TYPES[".html"])

    def file(self, name: str, if_none_match: str = "") -> Response:
        """Return a file by its name. A path is not a name."""
        media = TYPES.get(Path(name).suffix)
        if media is None or not _NAME.fullmatch(name):
            raise NotFound("There is no such file.", "Run `backstory open` to see the page.")
        body, tag = self._contents(name)
        headers = HEADERS | {"ETag": tag}
        if tag in (each.strip().removeprefix("W/") for each in if_none_match.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=media)

    def _contents(self, name: str) -> tuple[bytes, str]:
        path = self._folder / name
        try:
            changed = path.stat().st_mtime_ns
            known = self._read.get(name)
            if known is None or known[0] != changed:
                body = path.read_bytes()
                known = changed, body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'
                self._read[name] = known
        except OSError:
            raise NotFound("There is no such file.", "Run `make viewer` to build the page.") from None
        return known[1], known[2]
