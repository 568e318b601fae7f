"""Takes in reports: finds the project, decides whether a report is wanted, and stores it in one transaction."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from backstory import ids
from backstory import project as projects
from backstory.agents import AGENTS
from backstory.capture.excluded import is_excluded
from backstory.capture.processes import processes
from backstory.errors import NotFound
from backstory.groups import names
from backstory.model import FROM_LINE, Report, Session, Summary
from backstory.paths import OBSERVING
from backstory.project import Project, group_of, of_group
from backstory.sessions import lock
from backstory.settings import ConfigWatch, Settings
from backstory.store import events, feed, forgotten, observations, rounds, sessions, titles, turns, usage
from backstory.store import projects as known_projects
from backstory.store.db import Row, Store, Tx
from backstory.store.index import chunks
from backstory.text import cut

T = TypeVar("T")
#: agent -> the folders that hold its transcripts; no other file is opened
Roots = Mapping[str, tuple[Path, ...]]
#: (event, data): sends a live event to the viewers
Announce = Callable[[str, Any], None]
Untold = Literal["take", "hold back", "refuse"]
#: Seconds for which the project of a directory is remembered.
PROJECT_S = 30.0
#: Directories, from one that is gone upwards, in which earlier sessions are looked for.
MAX_PLACES = 6
#: Characters that are kept of the summary that an agent makes when it compacts. The conversation has the rest.
COMPACTED = 1000
#: Milliseconds that an ended round waits until its transcript is read, so that all of it is observed.
HOLD_MS = 2000


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a report."""

    event_id: str
    session: Session | None = None  #: None if the report was refused: an excluded project, a session of the observer
    prompt_number: int = 0
    is_private: bool = False
    skipped: str | None = None
    told: Row | None = None  #: a new prompt, as the live stream tells it


class Intake:
    """Stores the reports of hooks, routes and the spool."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        announce: Announce,
        wake: Callable[[int], None],
        roots: Roots,
        key: bytes,
    ) -> None:
        self.settings, self._store, self._send, self._wake, self._roots = settings, store, announce, wake, roots
        self._key = key  #: of the digests by which forgotten texts are recognised
        self._projects: dict[str, tuple[float, Project]] = {}
        self._past: dict[str, Project] = {}  #: directories that are gone
        self._config = ConfigWatch(settings.paths.config)
        self.wipe: Callable[[], None] = lambda: None  #: called after a deletion, to remove the text from the files, too

    async def write(self, work: Callable[[Tx], T]) -> T:
        return await asyncio.wrap_future(self._store.submit(work))

    async def project(self, cwd: str, name: str = "", reread: bool = False) -> Project:
        """Return the project of a directory. It is cached unless `reread`, and git's files are read in a thread."""
        if not cwd:
            return Project(name, name)
        now = time.monotonic()
        if group := names.of_path(self.settings.paths.data, cwd):
            return of_group(group)
        known = self._projects.get(cwd)
        if known is None or known[0] < now or reread:
            if len(self._projects) > 1000:
                self._projects.clear()
            known = (now + PROJECT_S, await asyncio.to_thread(projects.find, cwd))
            self._projects[cwd] = known
        return known[1]

    async def project_of(self, report: Report, name: str = "", reread: bool = False) -> Project:
        """Return the project of a report. That of an agent in a group is the group, whatever directory it works in."""
        group = names.of_path(self.settings.paths.data, report.transcript_path or "")
        return of_group(group) if group else await self.project(report.cwd, name, reread)

    async def past_project(self, report: Report) -> Project:
        """Return the project of a report of the past. If its directory is gone, it belongs to the project that sessions
        in that directory had: it may have been a worktree."""
        where, cwd = await self.project_of(report), report.cwd
        if where.root or group_of(where.key) or not cwd or await asyncio.to_thread(os.path.isdir, cwd):
            return where
        if cwd not in self._past:
            if len(self._past) > 1000:
                self._past.clear()
            places = [cwd, *map(str, Path(cwd).parents)][:MAX_PLACES]
            known = await asyncio.to_thread(self._store.read, lambda tx: known_projects.of_directories(tx, places))
            self._past[cwd] = replace(where, name=known.name, key=known.key) if known else where
        return self._past[cwd]

    async def take(
        self, report: Report, project_name: str = "", number: int | None = None, untold: Untold = "take"
    ) -> Receipt:
        """Store a report. It is committed when this returns.

        `untold` says what to do if the prompt of the report is not known yet: store it, store it without its contents,
        or refuse it for now.
        """
        # The branch may have been switched before a session or a prompt.
        where = await self.project_of(report, project_name, report.kind in ("session_start", "prompt"))
        if reason := await self.unwanted(report, where):
            return Receipt(report.event_id, skipped=reason)
        report = await self._complete(report, where)
        work = WORK.get(report.kind, take_event)

        def store(tx: Tx) -> tuple[Report, Receipt]:
            left: Report | None = report
            if forgotten.is_any_since(tx, report.occurred_at):  # it is late, and may repeat what is forgotten by now
                left = without_forgotten(tx, self._key, report)
            if left is None:
                return report, Receipt(report.event_id, skipped="private")
            if untold != "take" and rounds.is_prompt_missing(tx, _session(tx, left), left):
                return left, take_untold(tx, self.settings, left, where, untold)
            receipt = work(tx, self.settings, left, where, number)
            if left.kind == "prompt" and receipt.session and receipt.prompt_number and not receipt.skipped:
                told = feed.prompt_told(tx, receipt.session.id, receipt.prompt_number)
                return left, replace(receipt, told=told)
            return left, receipt

        report, taken = await self.write(store)
        if report.kind == "prompt" and taken.is_private:
            self.wipe()
        self._announce(report, taken)
        if taken.skipped is None:
            is_open = report.kind in ("tool", "tool_failure", "subagent_stop")
            self._wake(ids.now_ms() + int(self.settings.quiet_seconds * 1000) if is_open else 0)
        return taken

    async def store_past(
        self, reports: Sequence[tuple[Report, Project]], take: Callable[[Tx, Report, Project], str]
    ) -> Counter[str]:
        """Store late reports of one session in one transaction."""

        def work(tx: Tx) -> Counter[str]:
            counts = Counter(take(tx, report, where) for report, where in reports)
            if (counts["added"] or counts["turns"]) and (session := _session(tx, reports[0][0])):
                chunks.extend(tx, session)
            return counts

        counts = await self.write(work)
        if counts["added"]:
            self._wake(0)
            self.wipe()
        return counts

    async def unwanted(self, report: Report, where: Project) -> str | None:
        """Return why a report is not wanted: it is of the observer's own session, or its project is excluded."""
        if new := self._config.changed():
            self.settings = new
        own = str(self.settings.paths.observer)
        if report.cwd == own or report.cwd.startswith(own + "/") or report.cwd.endswith("/" + OBSERVING):
            return "own"
        if patterns := self.settings.exclude_projects:
            excluded = await asyncio.to_thread(is_excluded, patterns, report.cwd, where)
            return "project" if excluded else None
        return None

    async def _complete(self, report: Report, where: Project) -> Report:
        """Add the last message from the transcript if the payload lacks it."""
        if report.kind == "stop" and "last_assistant_message" not in report.payload and report.transcript_path:
            reader, roots = AGENTS[report.agent].transcripts.last_message, self._roots_of(report.agent, where)
            message = await asyncio.to_thread(reader, report.transcript_path, roots)
            if message:
                told = partial(replace, report, payload={**report.payload, "last_assistant_message": message})
                return await processes.run(told, size=len(message))
        return report

    def _roots_of(self, agent: str, where: Project) -> tuple[Path, ...]:
        """Return where the transcripts of an agent are. An agent in a group can name any path, and place links."""
        data = self.settings.paths.data
        if group := group_of(where.key):
            return (names.GroupPaths(data, group).state,)
        return tuple(root for root in self._roots.get(agent, ()) if not root.is_relative_to(data))

    def _announce(self, report: Report, taken: Receipt) -> None:
        """Send the live events of a report."""
        session = taken.session
        if session is None or taken.skipped == "duplicate":
            return
        about = {
            "session_id": session.id,
            "content_session_id": session.content_session_id,
            "agent": session.agent,
            "project": session.project,
            "project_key": session.project_key,
            "prompt_number": taken.prompt_number,
        }
        rests = {"stop": False, "session_end": False, "prompt": True}
        if session.is_new:
            self._send("session_started", about)
        if report.kind == "prompt" and taken.prompt_number:
            text = None if taken.is_private else report.payload.get("prompt")
            self._send("new_prompt", (taken.told or {}) | about | {"prompt": text, "is_private": taken.is_private})
        elif report.kind in ("tool", "tool_failure", "stop", "subagent_stop") and not taken.skipped:
            self._send(
                "observation_queued",
                about | {"event_id": taken.event_id, "kind": report.kind, "tool_name": report.tool_name},
            )
        elif report.kind == "session_end":
            self._send("session_completed", about | {"reason": report.payload.get("reason")})
        if report.kind in rests and not taken.skipped:
            self._send("processing_status", {"is_processing": rests[report.kind]} | about)


def without_forgotten(tx: Tx, key: bytes, report: Report) -> Report | None:
    """Return a report without what was forgotten; None if nothing of it may be stored."""
    left = forgotten.without(tx, key, report.payload, report.occurred_at)
    if left is not report.payload:
        # It has a forgotten text. An empty prompt counts as private, and the events of its round are not kept.
        if report.kind not in ("prompt", "stop"):
            return None
        report = replace(report, payload={**left, "prompt": ""} if report.kind == "prompt" else left)
    if report.kind in ("tool", "tool_failure"):
        return report
    return replace(report, payload=forgotten.redacted(tx, key, report.payload, report.occurred_at))


def _session(tx: Tx, report: Report) -> Session | None:
    return sessions.by_content_id(tx, report.agent, report.content_id)


def take_untold(tx: Tx, settings: Settings, report: Report, where: Project, untold: Untold) -> Receipt:
    """Store an event whose prompt is not known, without its contents: that prompt may turn out to be private. The
    transcript reports the event again, after its prompt."""
    if untold == "refuse":
        return Receipt(report.event_id, skipped="untold")
    session = sessions.get_or_create(tx, report, where)
    added = events.add(tx, session, report, skipped="tool" if settings.skips(report.tool_name) else "untold")
    sessions.move(tx, session, "work", at=report.occurred_at)
    return Receipt(added.event_id, session, added.prompt_number, skipped=added.skipped)


def take_event(tx: Tx, settings: Settings, report: Report, where: Project, number: int | None) -> Receipt:
    session = sessions.get_or_create(tx, report, where)
    skipped = "tool" if settings.skips(report.tool_name) else None
    added = events.add(tx, session, report, int(settings.quiet_seconds * 1000), skipped, _hold_ms(report))
    if added.skipped is None and report.kind == "session_start":
        _keep_title(tx, session, report)
    if added.skipped is None and report.kind != "session_start":
        sessions.move(tx, session, "work", at=report.occurred_at)
    if added.skipped is None and (report.kind == "pre_compact" or is_compacted(report)):
        events.close_round(tx, session.id, _hold_ms(report))
    if added.skipped is None and report.kind == "stop" and not report.transcript_path:
        # If there is a transcript, it is read next. It has the whole conversation in order.
        observations.end_round(tx, session)
        chunks.extend(tx, session)
    return Receipt(added.event_id, session, added.prompt_number, skipped=added.skipped)


def is_compacted(report: Report) -> bool:
    """Whether a session goes on after a compaction, of which an agent need not report the beginning."""
    return report.kind == "session_start" and report.payload.get("source") == "compact"


def _hold_ms(report: Report) -> int:
    return HOLD_MS if report.transcript_path else 0


def _take_prompt(tx: Tx, settings: Settings, report: Report, where: Project, number: int | None) -> Receipt:
    session = sessions.get_or_create(tx, report, where)
    text = report.payload.get("prompt")
    text = text if isinstance(text, str) else ""
    if event := events.by_event_id(tx, session.id, report.event_id):
        return Receipt(report.event_id, session, event.prompt_number, skipped="duplicate")
    if report.is_notification:
        added = events.add(tx, session, report)
        return Receipt(added.event_id, session)
    if known := sessions.known_prompt(tx, session, report.prompt_id, text):
        # The transcript reported it before the spool did.
        return Receipt(report.event_id, session, known.prompt_number, known.is_private, "duplicate")
    if number is None and (known := sessions.same_prompt(tx, session, report, text)):
        rounds.add_prompt_report(tx, session, report, known)
        return Receipt(report.event_id, session, known.prompt_number, known.is_private, "duplicate")
    prompt = sessions.add_prompt(tx, session, text, report.occurred_at, number, report.prompt_id, _line_of(report))
    if prompt.is_new:
        sessions.move(tx, session, "prompt", at=report.occurred_at)
        events.add(tx, session, replace(report, payload={}) if prompt.is_private else report)
        _keep_title(tx, session, report)
        if session.last_event_at >= report.occurred_at:
            rounds.follow_prompt(tx, session, prompt, report.occurred_at)
    return Receipt(report.event_id, session, prompt.number, prompt.is_private, None if prompt.is_new else "duplicate")


def _take_end(tx: Tx, settings: Settings, report: Report, where: Project, number: int | None) -> Receipt:
    """Complete a session from any open state. The end of a session does not create it."""
    known = _session(tx, report)
    if known is None:
        raise NotFound("There is no such session.", "A session begins with its first prompt or tool use.")
    session = sessions.hold(tx, known.id)
    events.add(tx, session, report)
    reason = report.payload.get("reason")
    status = session.status
    # A program that drives the session through the Python API says itself how it ended.
    if not lock.is_held(settings.paths, report.content_id):
        status = sessions.move(tx, session, "end", reason if isinstance(reason, str) else None, report.occurred_at)
    events.close_round(tx, session.id, _hold_ms(report))
    return Receipt(report.event_id, replace(session, status=status), session.prompt_counter)


def _take_compacted(tx: Tx, settings: Settings, report: Report, where: Project, number: int | None) -> Receipt:
    """Store the agent's own summary of a compacted conversation."""
    session = sessions.get_or_create(tx, report, where)
    added = events.add(tx, session, report)
    text = report.payload.get("compact_summary")
    if added.skipped is None and isinstance(text, str) and text.strip():
        summary = Summary(request="What the agent kept when it compacted", notes=cut(text, COMPACTED))
        memory_id, at = session.memory_session_id, report.occurred_at
        observations.put_summary(tx, session, added.prompt_number, summary, report.agent, memory_id, at, "compact")
    return Receipt(added.event_id, session, added.prompt_number, skipped=added.skipped)


def _take_reply(tx: Tx, settings: Settings, report: Report, where: Project, number: int | None) -> Receipt:
    """Store a message of the assistant as a turn, not as an event."""
    session = sessions.get_or_create(tx, report, where)
    prompt = sessions.prompt_for(tx, session, report.prompt_id, report.occurred_at)
    text = report.payload.get("text")
    is_new = (
        isinstance(text, str)
        and bool(text.strip())
        and turns.add_reply(tx, session, prompt.number, text, report.occurred_at, _line_of(report))
    )
    return Receipt(report.event_id, session, prompt.number, skipped=None if is_new else "duplicate")


def _take_title(tx: Tx, settings: Settings, report: Report, where: Project, number: int | None) -> Receipt:
    """Store the title of a session that is known. A title does not create a session."""
    session, title = _session(tx, report), report.payload.get("title")
    if session and isinstance(title, str):
        titles.put_agents(tx, session, title, "custom" if report.payload.get("source") == "custom" else "agent")
    return Receipt(report.event_id, session, skipped="duplicate")


def _take_usage(tx: Tx, settings: Settings, report: Report, where: Project, number: int | None) -> Receipt:
    """Store what models used in a part of a session that is known."""
    session = _session(tx, report)
    if session and not session.forgotten_at:
        usage.put(tx, session, report.payload)
    return Receipt(report.event_id, session, skipped="duplicate")


def _keep_title(tx: Tx, session: Session, report: Report) -> None:
    """Store the title that a hook reports with a start or a prompt."""
    if isinstance(title := report.payload.get("session_title"), str):
        titles.put_agents(tx, session, title, "agent")


def _line_of(report: Report) -> turns.TurnDetails:
    """Return the agent's own id of a message: that of its line in the transcript."""
    line = report.event_id.removeprefix(FROM_LINE)
    return turns.TurnDetails(mark=line) if line != report.event_id else turns.NO_DETAILS


WORK: dict[str, Callable[[Tx, Settings, Report, Project, int | None], Receipt]] = {
    "prompt": _take_prompt,
    "session_end": _take_end,
    "post_compact": _take_compacted,
    "reply": _take_reply,
    "title": _take_title,
    "usage": _take_usage,
}
