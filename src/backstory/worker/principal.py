"""The caller of a request, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from backstory.groups.names import is_main


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

    @property
    def confined_to(self) -> str | None:
        """The group whose rows alone it may see; None for all. The main group sees all."""
        return None if self.group is None or is_main(self.group) else self.group

    def may(self, needs: Scope, is_confinable: bool = False) -> bool:
        """Return whether the caller may use an endpoint that needs this scope.

        `is_confinable` says that the endpoint leaves out the rows of other groups.
        """
        return needs in self.scopes and (self.confined_to is None or is_confinable or needs is Scope.PUBLIC)


#: The caller over the socket, with the token, or with the session of a browser.
OWNER = Principal("owner", True, frozenset(Scope))
#: The caller without a credential.
ANONYMOUS = Principal("anonymous", False, frozenset({Scope.PUBLIC}))
