"""Errors that are shown to users. The docstring of a class is its message; `hint` says what to do."""

from __future__ import annotations


class BackstoryError(Exception):
    """Something went wrong in backstory."""

    hint = ""
    status = 400  #: HTTP status of the worker's response

    def __init__(self, message: str | None = None, hint: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())
        if hint is not None:
            self.hint = hint


class BadInput(BackstoryError):
    """The request could not be read."""


class NotFound(BackstoryError):
    """There is no such thing."""

    status = 404


class TooLarge(BackstoryError):
    """The body is larger than 16 MiB."""

    hint = "Send less: cut the tool's output to its head and tail."
    status = 413


class Refused(BackstoryError):
    """The token is missing or wrong."""

    hint = "Send `Authorization: Bearer TOKEN`, with the token from the file `token` in the data directory."
    status = 401


class Stranger(BackstoryError):
    """This worker answers only its own machine and its own pages."""

    hint = "Use http://127.0.0.1 and the port that `backstory status` shows."
    status = 403


class Forbidden(BackstoryError):
    """The caller may not use this route."""

    hint = "Use `worker.sock`, or the token from the file `token` in the data directory."
    status = 403


class TooMany(BackstoryError):
    """Too many requests at once."""

    hint = "Wait a second and send it again."
    status = 429


class StoreUnavailable(BackstoryError):
    """The database could not be written."""

    hint = "Check free disk space and `backstory status`. Hooks keep their events and send them again."
    status = 503


class Broken(BackstoryError):
    """Internal error in the worker."""

    hint = "See worker.log in the data directory, and please report this."
    status = 500


class LeaseLost(BackstoryError):
    """Another worker has taken over these events."""


class SessionBusy(BackstoryError):
    """The session is in use: one caller at a time may drive it."""

    hint = "Wait until the other call has ended, or start a session of your own."
    status = 409


class ImpossibleMove(BackstoryError):
    """The session cannot move to that state."""

    status = 409


class PointerMoved(BackstoryError):
    """The group has moved on to another conversation in the meantime."""

    hint = "Look at the group again, and repeat this if it is still what you want."
    status = 409


class SessionUnreadable(BackstoryError):
    """The session.json of this session could not be read."""

    hint = "Repair the file, or move it away to start without the earlier messages."
    is_damaged = False  #: its content is not that of a session.json; else it could not be opened


class WorkerAway(BackstoryError):
    """The worker does not answer."""

    hint = "Start it with `backstory start`. Its log is worker.log in the data directory."


class SettingsUnreadable(BackstoryError):
    """The agent's settings file could not be read, so nothing was changed."""

    hint = "Repair the file, or move it away, and try again."


class BadSetting(BackstoryError):
    """A setting could not be used."""

    hint = "Run `backstory config` for a list of settings and their values."
