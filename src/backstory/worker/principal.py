"""The caller of a request, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What an endpoint needs and a caller may have. No scope includes another."""

    PUBLIC = "public"  #: what needs no credential: the health check, and exchanging a code for a session
    READ = "read"  #: read memory
    CAPTURE = "capture"  #: report what an agent does, and get context in reply
    WRITE = "write"  #: add, edit and forget memories
    ADMIN = "admin"  #: operate the worker: queue, index, export, import, and access for browsers


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request. Only the guard creates it."""

    name: str
    is_owner: bool
    scopes: frozenset[Scope]
    group: str | None = None  #: the only group that it may use; None for all of memory

    def may(self, needs: Scope) -> bool:
        """Return whether the caller may use an endpoint that needs this scope."""
        # Rows have no group yet, so a caller that is confined to one may see nothing.
        is_confined = self.group is not None and needs is not Scope.PUBLIC
        return needs in self.scopes and not is_confined


#: The caller over the socket, with the token, or with the session of a browser.
OWNER = Principal("owner", True, frozenset(Scope))
#: The caller without a credential.
ANONYMOUS = Principal("anonymous", False, frozenset({Scope.PUBLIC}))
