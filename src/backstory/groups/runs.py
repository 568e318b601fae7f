"""The agents that run in groups: one for each group, and a few at the same time."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from backstory.errors import BackstoryError, BadInput, NotFound
from backstory.groups import start, state_dir
from backstory.groups.archive import Archives
from backstory.groups.group_run import GroupRun
from backstory.groups.ipc import Search
from backstory.groups.ipc_files import IpcFiles
from backstory.groups.messages import put_message
from backstory.groups.model_env import model_variables
from backstory.groups.names import GroupPaths
from backstory.groups.pointers import Pointers
from backstory.groups.progress import RunProgress
from backstory.groups.snapshots import CurrentTask
from backstory.jobs import place_of
from backstory.sessions import Message
from backstory.sessions.options import NO_SDK
from backstory.settings import Settings

log = logging.getLogger(__name__)
#: Characters of a message to a group, at most.
MAX_MESSAGE = 200_000


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the agents of groups need of the worker."""

    pointers: Pointers
    archives: Archives
    search: Search  #: searches the sessions of a group
    context: Callable[[str], Awaitable[str]]  #: renders what a new session of a group is told
    groups: Callable[[], Awaitable[list[str]]]  #: names all groups
    said: Callable[[str, str], Awaitable[tuple[Message, ...]]]  #: returns what is stored of a session of a group


class GroupRuns:
    """The running agents. A message to a group whose agent runs already is a follow-up."""

    def __init__(self, settings: Settings, around: Surroundings) -> None:
        self._settings, self._around = settings, around
        self._slots = asyncio.Semaphore(settings.group_limit)
        self._runs: dict[str, GroupRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._deleting: set[str] = set()  #: groups whose agents are not started
        for left in settings.paths.agent_runs.glob("launch-*"):
            left.unlink(missing_ok=True)  # of a worker that was killed

    def paths(self, group: str) -> GroupPaths:
        return GroupPaths(self._settings.data_dir, group)

    def current(self) -> list[CurrentTask]:
        """Return the agents at work."""
        return [CurrentTask(run.group, run.started_at, run.session_id) for run in self._runs.values()]

    def is_running(self, group: str) -> bool:
        return group in self._runs

    async def send(self, group: str, message: str, variables: Mapping[str, str]) -> tuple[RunProgress, int]:
        """Start the agent of a group with a message, or hand the message to the agent that runs.

        Return the progress of the run, and how many of its events are of the time before.
        """
        paths = await self._check(group, message)
        while (run := self._runs.get(group)) and run.is_ending:
            await run.has_ended.wait()
        self._check_kept(group)
        if run:
            put_message(IpcFiles(paths), message)
            return run.progress, run.progress.count
        start.check_auth(self._settings)
        given = model_variables(variables)
        start.check_credentials(paths, given)
        run = self._runs[group] = GroupRun(self._settings, paths, self._around, given, message, self)
        task = asyncio.create_task(self._work(run), name=f"agent of {group}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run.progress, 0

    async def follow_up(self, group: str, message: str, *, is_for_later: bool = True) -> bool:
        """Leave a message for the agent of a group. Return whether it runs.

        If it does not, its next run begins with the message, unless that is not for later.
        """
        paths = await self._check(group, message)
        self._check_kept(group)
        is_running = (run := self._runs.get(group)) is not None and not run.is_ending
        if is_running or is_for_later:
            put_message(IpcFiles(paths), message)
        return is_running

    async def close(self, group: str, *, at_once: bool = False) -> bool:
        """End the agent of a group: at once, and wait for it, or when it has answered. Return whether it ran."""
        await self._around.pointers.get(group)
        if run := self._runs.get(group):
            run.close(at_once=at_once)
            if at_once:
                await run.has_ended.wait()
        return run is not None

    @asynccontextmanager
    async def deleting(self, group: str) -> AsyncIterator[None]:
        """End the agent of a group, and start none and take no message meanwhile."""
        self._deleting.add(group)
        try:
            await self.close(group, at_once=True)
            yield
        finally:
            self._deleting.discard(group)

    def close_streams(self) -> None:
        """End everybody who follows a run, so that none delays a stop."""
        for run in self._runs.values():
            run.progress.end("stopped")

    async def stop(self) -> None:
        """End all agents."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _check(self, group: str, message: str) -> GroupPaths:
        if not message.strip():
            raise BadInput("The message is empty.")
        if len(message) > MAX_MESSAGE:
            raise BadInput(f"The message has more than {MAX_MESSAGE} characters.", "Put the text into a file.")
        await self._around.pointers.get(group)  # raises an error if there is no such group
        paths = self.paths(group)
        await asyncio.to_thread(state_dir.make_ipc, paths)
        return paths

    def _check_kept(self, group: str) -> None:
        if group in self._deleting:
            raise NotFound(f"The group {group} is being deleted.")

    async def _work(self, run: GroupRun) -> None:
        """Run an agent, and tell how it ended."""
        reason = "stopped"
        try:
            reason = await self._work_in_slot(run)
        except BackstoryError as error:
            reason = "failed"
            run.progress.add("error", error=str(error), hint=error.hint)
        except Exception as error:
            reason = "failed"
            log.error("The agent of the group %s failed: %s", run.group, place_of(error))
            run.progress.add("error", error=run.describe(error), hint="")
        finally:
            self._runs.pop(run.group, None)
            run.progress.end(reason)
            run.has_ended.set()

    async def _work_in_slot(self, run: GroupRun) -> str:
        """Run an agent as soon as there is a slot for it, unless it is ended before. Return why it ended."""
        if self._slots.locked():
            run.progress.add("waiting")
        waiting = run.waiting = asyncio.ensure_future(self._slots.acquire())
        try:
            await asyncio.wait([waiting])
            if run.is_ending:
                return "closed"
            await asyncio.to_thread(self._load, run.paths)
            await asyncio.to_thread(state_dir.prepare, run.paths, self._settings.data_dir / "skills")
            return await run.work()
        finally:
            if not waiting.cancel() and not waiting.cancelled():
                self._slots.release()

    def _load(self, paths: GroupPaths) -> None:
        """Load the SDK in a thread, because it takes a while. Make ready what a sandbox needs."""
        try:
            importlib.import_module("claude_agent_sdk")
        except ImportError:
            raise BackstoryError(NO_SDK, "Run `pip install 'backstory[claude]'`.") from None
        start.write_files(self._settings.paths.agent_runs)
        start.remove_left(self._settings, paths)
