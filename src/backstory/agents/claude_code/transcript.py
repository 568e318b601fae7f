"""Reads Claude Code's transcripts as reports, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backstory import ids
from backstory.agents.claude_code import lines
from backstory.agents.claude_code.payloads import NAME, without_reminders
from backstory.agents.claude_code.transcript_files import begins_with, entries
from backstory.agents.claude_code.usage import Usage, counted_cost
from backstory.agents.transcripts import Mark
from backstory.model import ContentId, Kind, Report

#: Maximum tool uses that wait for their result. If there are more, the oldest are dropped.
MAX_OPEN_USES = 256
_SESSION = re.compile(r"[\w.:-]{1,128}")


@dataclass(slots=True)
class _Round:
    """The round that is being read."""

    uuid: str = ""
    prompt_id: str | None = None
    tools: int = 0
    said_by: str | None = None  #: the id of the message that `said` holds
    said: list[str] = field(default_factory=list)
    is_answered: bool = False  #: the assistant spoke last, not a tool
    is_interrupted: bool = False
    error: str = ""  #: the error of the API that ended it
    rejected: list[_Rejected] = field(default_factory=list)
    ended: bool = False
    last: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Said:
    """A message of the assistant that may go on. Each of its blocks is a line, under the same id."""

    message: str
    entry: Mapping[str, Any]
    texts: list[str]


@dataclass(slots=True)
class _Use:
    """A tool use that waits for its result."""

    name: str
    given: Any
    round: str | None  #: the uuid of its prompt; None for a use of a subagent


@dataclass(slots=True)
class _Rejected:
    """A tool use without a result, because the user rejected it or interrupted it."""

    id: str
    use: _Use
    entry: Mapping[str, Any]


class Transcript:
    """One pass over a file. Iterate to get the reports; afterwards `mark` is where the next pass begins.

    `whole` says that nothing more is coming: the last round has ended, and a last line without a line break is read.
    A fork begins with a copy of another conversation. Its lines are skipped if the file shows that they are older.
    With `queued`, prompts are reported that were sent in the middle of a round. Hooks report them by themselves.

    A line that cannot be read may be a prompt. What follows it belongs to no round, until it names its prompt, answers
    a tool use of the round before, or the next prompt is read.
    """

    def __init__(self, path: Path, start: Mark | None = None, whole: bool = False, queued: bool = False) -> None:
        self.mark = start or Mark()
        self._path, self._whole, self._queued = path, whole, queued
        uuid, _, prompt_id = self.mark.prompt.partition(" ")
        self._round = _Round(uuid, prompt_id or None)
        self._marks = [self.mark]
        self._open: dict[str, _Use] = {}
        self._at = ids.from_ms(0)
        self._born = ""  #: when the file was started, if it says so before its first message
        self._boundary: Mapping[str, Any] = {}
        self._said: _Said | None = None
        self._offset = self.mark.offset
        #: id of a prompt that no person wrote -> id of the prompt of its round
        self._aside: dict[str, str] = {}
        self._titles: dict[str, tuple[str, Any]] = {}  #: who gave it -> title and session
        self._uuids: set[str] = set()  #: of the entries that were read
        self._last: Mapping[str, Any] | None = None
        self._usage = Usage()
        self._cost: dict[str, int] = {}  #: session -> what the client counted
        self._gap_since: str | None = None  #: when the last entry before an unreadable line was written
        self._before_gap = self._round
        self._is_copy = False  #: the file begins with another conversation, whose cost the client counts, too

    def __iter__(self) -> Iterator[Report]:
        if self._round.uuid and not begins_with(self._path, self.mark.offset, self._round.uuid):
            self._round, self._marks, self._offset = _Round(), [Mark()], 0
        for offset, entry in entries(self._path, self._offset, self._whole):
            if entry is None:
                yield from self._reply()
                yield from self._begin_gap()
            elif self._queued and (text := lines.queued_prompt(entry)) and self._is_ours(entry):
                yield from self._reply()
                yield self._report(entry, "prompt", entry["uuid"], {"prompt": text})
            elif "message" not in entry and entry.get("type") != "system":
                if not self._round.uuid and not self._born:
                    self._born = lines.stamp(entry.get("timestamp")) or ""
                if title := lines.title(entry, self._uuids):
                    self._titles[title[1]] = (title[0], entry.get("sessionId"))
                if (cost := counted_cost(entry)) is not None:
                    self._cost[str(entry.get("sessionId"))] = cost
            elif self._is_ours(entry):
                self._offset = offset
                self._uuids.add(entry["uuid"])
                yield from self._read(entry)
                self._last = entry
                self._usage.read(entry)
        yield from self._reply()
        if self._whole or self._round.ended:
            yield from self._end()
        yield from self._titled()
        yield from self._used()
        yield from self._counted()
        self.mark = self._marks[0]

    @property
    def place(self) -> Mark:
        """The last line that was read."""
        return Mark(self._offset)

    @property
    def ended(self) -> bool:
        """Whether no round is left open."""
        return not self._round.last

    def _is_ours(self, entry: Mapping[str, Any]) -> bool:
        session, uuid = entry.get("sessionId"), entry.get("uuid")
        if not isinstance(session, str) or not _SESSION.fullmatch(session) or not isinstance(uuid, str):
            return False
        if not _SESSION.fullmatch(uuid):
            return False
        at = lines.stamp(entry.get("timestamp")) or self._at
        if at < self._born:
            self._is_copy = True
            return False
        self._at = at
        return True

    def _begin_gap(self) -> Iterator[Report]:
        """Forget the round: the next prompt may stand in a line that cannot be read. Subagents' files have none."""
        if self._last and self._last.get("isSidechain") and not self._before_gap.uuid and not self._round.uuid:
            return
        if self._round.ended:
            yield from self._end()
        if self._gap_since is None:
            self._before_gap = self._round
        self._gap_since, self._round = self._at, _Round()

    def _name_round(self, entry: Mapping[str, Any], use: _Use | None) -> None:
        """Find out to which prompt the answer to a tool use after a gap belongs."""
        given, before = entry.get("promptId"), self._before_gap
        if (use and use.round and use.round == before.uuid) or (given and given == before.prompt_id):
            self._gap_since, self._round = None, before  # no prompt was in the gap
        elif isinstance(given, str) and given:
            self._round.prompt_id = given[:512]

    def _read(self, entry: Mapping[str, Any]) -> Iterator[Report]:
        kind, aside = entry.get("type"), bool(entry.get("isSidechain"))
        if not aside and (self._said is None or lines.message_id(entry) != self._said.message):
            yield from self._reply()
        if kind == "assistant":
            self._read_assistant(entry, aside)
        elif kind == "system":
            if entry.get("subtype") == "compact_boundary":
                self._boundary = entry
                yield from self._used()
                if self._gap_since is None:
                    self._keep_mark()
            elif entry.get("subtype") in ("stop_hook_summary", "turn_duration") and self._round.said:
                self._round.ended = not entry.get("preventedContinuation")
        elif kind == "user" and entry.get("isCompactSummary"):
            yield from self._compacted(entry)
        elif kind == "user":
            yield from self._results(entry, aside)
            if not aside and lines.is_interruption(entry):
                yield from self._interrupted(entry)
            elif not aside and (text := lines.prompt(entry)) is not None:
                yield from self._asked(entry, text)
            elif not aside:
                self._pass_over(entry)

    def _read_assistant(self, entry: Mapping[str, Any], aside: bool) -> None:
        message = entry["message"] if isinstance(entry["message"], dict) else {}
        if entry.get("isApiErrorMessage") and not aside:
            kind = entry.get("error")  # as the hook reports it; older clients write only the message
            text = kind if isinstance(kind, str) and kind else lines.text_of(message.get("content"))
            self._round.error = text[:1000] or "API Error"
            self._round.ended, self._round.last = True, entry
            return
        texts, home, is_answered = [], None if aside else self._round.uuid, self._round.is_answered
        for block in lines.blocks(message):
            if block.get("type") == "tool_use" and isinstance(block.get("id"), str):
                use = _Use(str(block.get("name") or "unknown")[:200], block.get("input"), home)
                self._open[block["id"][:512]] = use
                is_answered = False
                if len(self._open) > MAX_OPEN_USES:
                    del self._open[next(iter(self._open))]
            elif block.get("type") == "text" and isinstance(block.get("text"), str):
                texts.append(block["text"])
                is_answered = True
        if aside:
            return
        self._round.is_answered, self._round.error = is_answered, ""
        # Each block of a message is a line, so its texts come one after the other under its id.
        if texts:
            said_by = lines.message_id(entry)
            if self._said is None:
                self._said = _Said(said_by, entry, [])
            self._said.texts = [*self._said.texts, *texts][:100]
            self._round.said = [*(self._round.said if self._round.said_by == said_by else []), *texts][-100:]
            self._round.said_by = said_by
        self._round.ended = message.get("stop_reason") in ("end_turn", "stop_sequence", "max_tokens", "refusal")
        self._round.last = entry

    def _reply(self) -> Iterator[Report]:
        """Report what the assistant said, once the whole message is read."""
        said, self._said = self._said, None
        if said and (text := without_reminders("\n".join(said.texts)).strip()):
            yield self._report(said.entry, "reply", said.entry["uuid"], {"text": text})

    def _results(self, entry: Mapping[str, Any], aside: bool) -> Iterator[Report]:
        results = [block for block in lines.blocks(entry["message"]) if block.get("type") == "tool_result"]
        for block in results:
            use = self._open.pop(str(block.get("tool_use_id"))[:512], None)
            if self._gap_since is not None and not aside:
                self._name_round(entry, use)
            if use is None:
                continue
            if lines.was_rejected(entry, block):
                yield from self._not_done(entry, block, use, aside)
                continue
            # The entry holds the whole answer, but only if there is one result.
            whole = entry.get("toolUseResult") if len(results) == 1 else None
            payload: dict[str, Any] = {"tool_input": use.given}
            if block.get("is_error"):
                payload["error"] = lines.text_of(block.get("content")) or lines.text_of(whole)
            else:
                payload["tool_response"] = lines.text_of(block.get("content")) if whole is None else whole
            if aside and isinstance(entry.get("agentId"), str):
                payload["agent_id"] = entry["agentId"][:200]
            kind: Kind = "tool_failure" if block.get("is_error") else "tool"
            yield self._report(entry, kind, str(block["tool_use_id"])[:512], payload, use.name)
            if not aside:
                self._round.tools += 1
                self._round.ended, self._round.last, self._round.is_answered = False, entry, False

    def _not_done(self, entry: Mapping[str, Any], block: Mapping[str, Any], use: _Use, aside: bool) -> Iterator[Report]:
        """Report a tool use that the user rejected with a reason. Without one, the next entry tells what happened."""
        reason = lines.rejection(entry, block)
        if aside or reason is None:
            return
        rejected = _Rejected(str(block["tool_use_id"])[:512], use, entry)
        if reason:
            yield self._rejection(rejected, reason)
        else:
            self._round.rejected.append(rejected)
        self._round.ended, self._round.last, self._round.is_answered = False, entry, False

    def _rejection(self, rejected: _Rejected, reason: str) -> Report:
        use = rejected.use
        error = f"The user rejected this: {reason}" if reason else "The user rejected this."
        payload = {"tool_input": use.given, "error": error, "rejected": reason}
        return self._report(rejected.entry, "tool_failure", rejected.id, payload, use.name)

    def _interrupted(self, entry: Mapping[str, Any]) -> Iterator[Report]:
        """The user interrupted the round. It ends here, and no hook tells of it.

        The client writes the same for a tool use that ran and for one that the user did not permit. Only in the first
        case the entry names the message that was interrupted.
        """
        now = self._round
        if "interruptedMessageId" not in entry:
            yield from (self._rejection(rejected, "") for rejected in now.rejected)
            now.rejected = []
        now.is_interrupted = now.ended = True
        now.last = entry

    def _asked(self, entry: Mapping[str, Any], text: str) -> Iterator[Report]:
        yield from self._end()
        if self._gap_since is not None:
            self._round = self._before_gap
            yield from self._end()
        given = entry.get("promptId")
        # Older clients gave a prompt no id of its own; the id of its line serves as well.
        yield from self._used()
        self._gap_since = None
        self._round = _Round(entry["uuid"], given[:512] if isinstance(given, str) and given else entry["uuid"])
        self._keep_mark()
        yield self._report(entry, "prompt", entry["uuid"], {"prompt": text})

    def _pass_over(self, entry: Mapping[str, Any]) -> None:
        """Remember the id of a notification: it begins no round, but the entries after it carry its id."""
        given, now = entry.get("promptId"), self._round.prompt_id
        has_results = any(block.get("type") == "tool_result" for block in lines.blocks(entry["message"]))
        if isinstance(given, str) and now and given != now and not has_results:
            self._aside[given] = now

    def _end(self) -> Iterator[Report]:
        """Report the end of a round in which something was done or said."""
        now = self._round
        if not now.last or not (now.said or now.tools or now.is_interrupted or now.error):
            return
        yield self._report(now.last, "stop", f"stop-{now.uuid or now.last['uuid']}", self._ending(now))
        self._round = _Round(now.uuid, now.prompt_id)

    def _ending(self, now: _Round) -> dict[str, Any]:
        """Return the last message of a round, or how the round ended without one and what was under way."""
        is_stopped = now.is_interrupted or now.error
        if self._gap_since is not None and not now.is_answered and not is_stopped:
            return {}  # how it ended cannot be read
        if now.is_answered and not is_stopped:
            return {"last_assistant_message": without_reminders("\n".join(now.said))}
        uses = [rejected.use for rejected in now.rejected]
        uses += [use for use in self._open.values() if use.round == now.uuid]
        return {
            "error": now.error or None,
            "is_interrupted": now.is_interrupted or None,
            "is_unfinished": True,
            "under_way": [{"tool_name": use.name, "tool_input": use.given} for use in uses] or None,
        }

    def _compacted(self, entry: Mapping[str, Any]) -> Iterator[Report]:
        about = self._boundary.get("compactMetadata")
        trigger = about.get("trigger") if isinstance(about, dict) else None
        message = entry["message"]
        summary = lines.text_of(message.get("content")) if isinstance(message, dict) else ""
        if summary:
            yield self._report(entry, "post_compact", entry["uuid"], {"trigger": trigger, "compact_summary": summary})

    def _titled(self) -> Iterator[Report]:
        """Report the titles that were read. Their entries have no time, so that of the last message is used."""
        for source, (title, session) in self._titles.items():
            if self._last and session in (None, self._last["sessionId"]):
                name, payload = f"title-{source}-{self._last['uuid']}", {"title": title, "source": source}
                yield self._report(self._last, "title", name, payload)

    def _used(self) -> Iterator[Report]:
        """Report what was used since the last mark."""
        usage, self._usage = self._usage, Usage()
        if self._last and (used := usage.by_model()):
            yield self._report(self._last, "usage", f"usage-{usage.part}", {"part": usage.part, "used": used})

    def _counted(self) -> Iterator[Report]:
        """Report what the whole session cost so far, as the client counted it."""
        cost = self._cost.get(self._last["sessionId"]) if self._last and not self._is_copy else None
        if self._last and cost is not None:
            name = f"cost-{self._last['uuid']}"
            yield self._report(self._last, "usage", name, {"part": "", "used": [{"model": "", "cost_micros": cost}]})

    def _keep_mark(self) -> None:
        # The mark before the newest is used: an answer may come after the next question.
        prompt = f"{self._round.uuid} {self._round.prompt_id or ''}".strip()
        self._marks = [*self._marks, Mark(self._offset, prompt)][-2:]

    def _report(
        self, entry: Mapping[str, Any], kind: Kind, name: str, payload: Mapping[str, Any], tool: str | None = None
    ) -> Report:
        given = entry.get("promptId")
        given = self._aside.get(given, given) if isinstance(given, str) and kind != "prompt" else given
        named = given[:512] if isinstance(given, str) and given and kind != "stop" else self._round.prompt_id
        cwd, branch = entry.get("cwd"), entry.get("gitBranch")
        return Report(
            agent=NAME,
            kind=kind,
            content_id=ContentId(entry["sessionId"]),
            event_id=f"transcript-{name}"[:512],
            occurred_at=lines.stamp(entry.get("timestamp")) or self._at,
            cwd=cwd if isinstance(cwd, str) and len(cwd) <= 4096 else "",
            git_branch=branch[:512] if isinstance(branch, str) and branch else None,
            tool_name=tool,
            tool_use_id=name if tool else None,
            prompt_id=named,
            gap_since=None if named else self._gap_since,
            payload={key: value for key, value in payload.items() if value is not None},
        )
