"""Takes in reports of the past, from transcripts. Each is compared with what is known and stored at its own time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from backstory import ids
from backstory.batches import batches
from backstory.capture.intake import WORK, Intake, take_event, take_untold, without_forgotten
from backstory.errors import NotFound
from backstory.model import NO_EVENTS, OBSERVED, Report, Session, SessionStatus
from backstory.project import Project, group_of
from backstory.store import events, rounds, sessions, turns
from backstory.store.db import Tx
from backstory.store.events import StoredEvent

#: Maximum milliseconds between the times that a hook and the transcript give to the same event.
NEAR_MS = 30_000
#: Maximum reports in one transaction, so that other writers do not wait long.
MAX_REPORTS = 100
#: Maximum bytes of payloads in one transaction.
MAX_BYTES = 1 << 20


def report_batches(reports: Iterable[Report]) -> Iterator[list[Report]]:
    """Split reports into batches that are small enough for one transaction."""
    return batches(reports, lambda one: len(json.dumps(one.payload, ensure_ascii=False)), MAX_REPORTS, MAX_BYTES)


class Backfill:
    """Stores late reports through the intake, unless they are known."""

    def __init__(self, intake: Intake, key: bytes) -> None:
        self._intake, self._key = intake, key

    async def take(self, reports: Sequence[Report], project: str = "") -> Counter[str]:
        """Store the reports that are new, those of a session in one transaction. Return how many were `added`, `known`
        and `skipped`, and how many `turns` of the assistant were new."""
        counts: Counter[str] = Counter()
        for _, group in groupby(reports, lambda report: (report.agent, report.content_id)):
            wanted = []
            for report in group:
                where = await self._where(report, project)
                if await self._intake.unwanted(report, where):
                    counts["skipped"] += report.kind not in NO_EVENTS
                else:
                    wanted.append((replace(report, occurred_at=min(report.occurred_at, ids.now())), where))
            counts += await self._intake.store_past(wanted, self._take)
        return counts

    async def _where(self, report: Report, project: str) -> Project:
        """Return the project of a report, with the branch that was checked out then."""
        where = Project(project, project) if project else await self._intake.past_project(report)
        return replace(where, branch=report.git_branch)

    def _take(self, tx: Tx, report: Report, where: Project) -> str:
        left = without_forgotten(tx, self._key, report)
        if left is None:
            return "skipped" if report.kind not in NO_EVENTS else ""
        report = left
        session = sessions.by_content_id(tx, report.agent, report.content_id)
        is_untold = report.gap_since is not None and rounds.is_prompt_missing(tx, session, report)
        if report.kind not in NO_EVENTS:
            return self._take_event(tx, session, report, where, is_untold)
        if is_untold or _is_copy(tx, session, report, where):
            return ""
        taken = WORK[report.kind](tx, self._intake.settings, report, where, None)
        return "turns" if taken.skipped is None else ""

    def _take_event(self, tx: Tx, session: Session | None, report: Report, where: Project, is_untold: bool) -> str:
        if _is_copy(tx, session, report, where):
            return "known"
        known = _known(tx, session, report) if session else None
        if session and known:
            event = known if isinstance(known, StoredEvent) and known.kind in OBSERVED and not is_untold else None
            return "added" if event and rounds.move_known(tx, session, event, report) else "known"
        try:
            if is_untold:
                taken = take_untold(tx, self._intake.settings, report, where, "hold back")
            else:
                taken = WORK.get(report.kind, take_event)(tx, self._intake.settings, report, where, None)
        except NotFound:
            return "skipped"  # the end of a session whose reports were not wanted
        return {None: "added", "duplicate": "known"}.get(taken.skipped, "skipped")


def _is_copy(tx: Tx, session: Session | None, report: Report, where: Project) -> bool:
    """Whether a report belongs to another session. A fork's transcript begins with a copy of the conversation."""
    if session and group_of(session.project_key) != group_of(where.key):
        return True  # the transcript of a group names a session that is not its own
    if session and session.start_source == "fork" and report.occurred_at < session.created_at:
        return True
    if report.kind == "reply":
        return turns.is_in_other_session(tx, report)
    return events.is_in_other_session(tx, report)


def _known(tx: Tx, session: Session, report: Report) -> StoredEvent | bool | None:
    """Return the stored event that is the same as a report. True if the report is known without such an event."""
    if (event := events.same(tx, session, report)) or report.tool_use_id:
        return event
    if report.kind == "prompt":
        return _is_known_prompt(tx, session, report)
    if report.kind == "stop":
        return _known_stop(tx, session, report)
    if report.kind == "post_compact":
        return events.has_near(tx, session, report, NEAR_MS)
    # If hooks reported the start of a session, they report its end, too.
    is_ended = session.start_source is not None or session.status == SessionStatus.COMPLETED
    return report.kind == "session_end" and is_ended


def _known_stop(tx: Tx, session: Session, report: Report) -> StoredEvent | None:
    """Return the end of the same round, as a hook reported it. One that was placed by the clock may be that of a later
    round whose prompt is not known yet."""
    prompt = sessions.prompt_for(tx, session, report.prompt_id, report.occurred_at)
    stops = events.stops_of_round(tx, session, prompt.number)
    return next((stop for stop in stops if stop.prompt_id or events.is_same_stop(stop, report)), None)


def _is_known_prompt(tx: Tx, session: Session, report: Report) -> bool:
    text = report.payload.get("prompt")
    text = text if isinstance(text, str) else ""
    prompt = sessions.known_prompt(tx, session, report.prompt_id, text)
    if prompt is None:
        prompt = sessions.same_prompt(tx, session, report, text)
        if prompt and prompt.prompt_id != report.prompt_id:
            rounds.add_prompt_report(tx, session, report, prompt)
    return prompt is not None
