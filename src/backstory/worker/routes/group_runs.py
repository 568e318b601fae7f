"""Routes that run the agent of a group: start it, follow it, send it messages, end it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from starlette.responses import StreamingResponse

from backstory.capture import bodies
from backstory.errors import Forbidden
from backstory.groups.progress import RunProgress
from backstory.groups.runs import MAX_MESSAGE, GroupRuns
from backstory.settings import environment
from backstory.worker.endpoints import Call, Endpoint, needs_write

#: Seconds without an event after which a comment is sent, so that the connection stays open.
KEEP_ALIVE_S = 10.0
MessageText = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MESSAGE)]


class GroupMessage(msgspec.Struct):
    """A message to the agent of a group."""

    message: MessageText
    #: Variables of the caller: who pays for the model, and how to reach it. Only over the socket.
    env: dict[str, str] | None = None


class FollowUp(msgspec.Struct):
    """A message to the agent of a group that runs. With `is_for_later`, it is also left for one that will run."""

    message: MessageText
    is_for_later: bool = True


class CloseRun(msgspec.Struct):
    """How to end the agent of a group: with `now` at once, else when it has answered."""

    now: bool = False


class RunState(msgspec.Struct):
    """Whether the agent of the group runs."""

    is_running: bool


class GroupRunRoutes:
    """The routes. Messages are not stripped: they are for the agent. What is remembered of them is."""

    def __init__(self, runs: GroupRuns) -> None:
        self._runs = runs

    def table(self) -> list[Endpoint]:
        path = "/api/groups/{group}"
        stream = "text/event-stream"
        raw = bodies.whole
        return [
            needs_write("POST", f"{path}/run", self.run, body=GroupMessage, media=stream, read=raw, fails=(404,)),
            needs_write("POST", f"{path}/messages", self.follow_up, RunState, FollowUp, status=202, read=raw),
            needs_write("POST", f"{path}/close", self.close, RunState, CloseRun),
        ]

    async def run(self, call: Call) -> StreamingResponse:
        """Send a message to the agent of a group, and stream what it does. One that runs already gets it, too."""
        body: GroupMessage = call.body
        if body.env is not None and call.request.scope["server"][1] is not None:
            raise Forbidden("Variables are taken over the socket only.")
        variables = environment() if body.env is None else body.env
        progress, since = await self._runs.send(_group(call), body.message, variables)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_events(progress, since), media_type="text/event-stream", headers=headers)

    async def follow_up(self, call: Call) -> RunState:
        """Leave a message for the agent of a group. If it does not run, its next run begins with it."""
        body: FollowUp = call.body
        return RunState(await self._runs.follow_up(_group(call), body.message, is_for_later=body.is_for_later))

    async def close(self, call: Call) -> RunState:
        """End the agent of a group. Say whether it ran."""
        body: CloseRun = call.body
        return RunState(await self._runs.close(_group(call), at_once=body.now))


def _group(call: Call) -> str:
    return str(call.request.path_params["group"])


async def _events(progress: RunProgress, since: int) -> AsyncIterator[bytes]:
    """Yield the events of a run as server-sent events."""
    async for event in progress.follow(since, KEEP_ALIVE_S):
        if event is None:
            yield b": still here\n\n"
        else:
            name, data = event
            yield f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n".encode()
