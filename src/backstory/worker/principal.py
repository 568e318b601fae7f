"""Who makes a request, and what they may do with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What an endpoint needs, and what a caller is allowed. No scope includes another."""

    PUBLIC = "public"  #: use what needs no credential: the health check, and exchanging a code for a session
    READ = "read"  #: read what is remembered
    CAPTURE = "capture"  #: report what an agent does; hooks are answered with context
    WRITE = "write"  #: add, edit and forget memories
    ADMIN = "admin"  #: run the worker: its queue, index, exports and imports, and who else is let in


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request. The guard makes it; nothing in a request's body can change it."""

    name: str
    is_owner: bool
    scopes: frozenset[Scope]
    group: str | None = None  #: the group that it is confined to; None for the whole of the memory

    def may(self, needs: Scope) -> bool:
        """Whether the caller may use an endpoint that needs this scope."""
        # No row says which group it belongs to, so nothing can be shown to a group without showing it everything.
        is_confined = self.group is not None and needs is not Scope.PUBLIC
        return needs in self.scopes and not is_confined


#: Whoever owns the socket, has the token, or uses a browser that was let in with a code.
OWNER = Principal("owner", True, frozenset(Scope))
#: Whoever shows no credential.
ANONYMOUS = Principal("anonymous", False, frozenset({Scope.PUBLIC}))
