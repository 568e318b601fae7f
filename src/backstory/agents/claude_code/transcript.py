"""Reads Claude Code's transcripts as reports, in order, however long or damaged the file is."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from backstory import ids
from backstory.agents.claude_code import lines
from backstory.agents.claude_code.payloads import NAME, without_reminders
from backstory.agents.transcripts import Mark
from backstory.files import open_regular
from backstory.model import ContentId, Kind, Report

#: Bytes at the end of a transcript that are read for the last message.
TAIL_BYTES = 1 << 20
#: Maximum bytes of a line. Longer ones are skipped.
MAX_LINE_BYTES = 32 << 20
#: Maximum tool uses that wait for their result. If there are more, the oldest are dropped.
MAX_OPEN_USES = 256
_SESSION = re.compile(r"[\w.:-]{1,128}")
_CHAIN = (b'"type":"user"', b'"type":"assistant"', b'"type":"system"', b'"type": "')
_BEGINS = (b'{"type":"queue-operation"', *(b"{" + mark for mark in _CHAIN))


@dataclass(slots=True)
class _Round:
    """The round that is being read."""

    uuid: str = ""
    prompt_id: str | None = None
    tools: int = 0
    said_by: str | None = None  #: the id of the message that `said` holds
    said: list[str] = field(default_factory=list)
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


class Transcript:
    """One pass over a file. Iterate to get the reports; afterwards `mark` is where the next pass begins.

    `whole` says that nothing more is coming: the last round has ended, and a last line without a line break is read.
    A fork begins with a copy of another conversation. Its lines are skipped if the file shows that they are older.
    """

    def __init__(self, path: Path, start: Mark | None = None, whole: bool = False) -> None:
        self.mark = start or Mark()
        self._path, self._whole = path, whole
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

    def __iter__(self) -> Iterator[Report]:
        for offset, entry in entries(self._path, self.mark.offset, self._whole):
            if "message" not in entry and entry.get("type") != "system":
                if not self._round.uuid and not self._born:
                    self._born = _stamp(entry.get("timestamp")) or ""
            elif self._is_ours(entry):
                self._offset = offset
                yield from self._read(entry)
        yield from self._reply()
        if self._whole or self._round.ended:
            yield from self._end()
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
        at = _stamp(entry.get("timestamp")) or self._at
        if at < self._born:
            return False
        self._at = at
        return True

    def _read(self, entry: Mapping[str, Any]) -> Iterator[Report]:
        kind, aside = entry.get("type"), bool(entry.get("isSidechain"))
        if not aside and (self._said is None or _message(entry) != self._said.message):
            yield from self._reply()
        if kind == "assistant":
            self._read_assistant(entry, aside)
        elif kind == "system":
            if entry.get("subtype") == "compact_boundary":
                self._boundary = entry
                self._keep_mark()
            elif entry.get("subtype") in ("stop_hook_summary", "turn_duration") and self._round.said:
                self._round.ended = not entry.get("preventedContinuation")
        elif kind == "user" and entry.get("isCompactSummary"):
            yield from self._compacted(entry)
        elif kind == "user":
            yield from self._results(entry, aside)
            if not aside and (text := lines.prompt(entry)) is not None:
                yield from self._asked(entry, text)
            elif not aside:
                self._pass_over(entry)

    def _read_assistant(self, entry: Mapping[str, Any], aside: bool) -> None:
        message = entry["message"] if isinstance(entry["message"], dict) else {}
        texts = []
        for block in lines.blocks(message):
            if block.get("type") == "tool_use" and isinstance(block.get("id"), str):
                self._open[block["id"][:512]] = _Use(str(block.get("name") or "unknown")[:200], block.get("input"))
                if len(self._open) > MAX_OPEN_USES:
                    del self._open[next(iter(self._open))]
            elif block.get("type") == "text" and isinstance(block.get("text"), str):
                texts.append(block["text"])
        if aside:
            return
        # Each block of a message is a line, so its texts come one after the other under its id.
        if texts:
            said_by = _message(entry)
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
            if use is None or lines.was_rejected(entry, block):
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
                self._round.ended, self._round.last = False, entry

    def _asked(self, entry: Mapping[str, Any], text: str) -> Iterator[Report]:
        yield from self._end()
        given = entry.get("promptId")
        # Older clients gave a prompt no id of its own; the id of its line serves as well.
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
        if not now.last or not (now.said or now.tools):
            return
        message = without_reminders("\n".join(now.said))
        yield self._report(
            now.last, "stop", f"stop-{now.uuid or now.last['uuid']}", {"last_assistant_message": message}
        )
        self._round = _Round(now.uuid, now.prompt_id)

    def _compacted(self, entry: Mapping[str, Any]) -> Iterator[Report]:
        about = self._boundary.get("compactMetadata")
        trigger = about.get("trigger") if isinstance(about, dict) else None
        message = entry["message"]
        summary = lines.text_of(message.get("content")) if isinstance(message, dict) else ""
        if summary:
            yield self._report(entry, "post_compact", entry["uuid"], {"trigger": trigger, "compact_summary": summary})

    def _keep_mark(self) -> None:
        # The mark before the newest is used: an answer may come after the next question.
        prompt = f"{self._round.uuid} {self._round.prompt_id or ''}".strip()
        self._marks = [*self._marks, Mark(self._offset, prompt)][-2:]

    def _report(
        self, entry: Mapping[str, Any], kind: Kind, name: str, payload: Mapping[str, Any], tool: str | None = None
    ) -> Report:
        given = entry.get("promptId")
        given = self._aside.get(given, given) if isinstance(given, str) and kind != "prompt" else given
        cwd, branch = entry.get("cwd"), entry.get("gitBranch")
        return Report(
            agent=NAME,
            kind=kind,
            content_id=ContentId(entry["sessionId"]),
            event_id=f"transcript-{name}"[:512],
            occurred_at=_stamp(entry.get("timestamp")) or self._at,
            cwd=cwd if isinstance(cwd, str) and len(cwd) <= 4096 else "",
            git_branch=branch[:512] if isinstance(branch, str) and branch else None,
            tool_name=tool,
            tool_use_id=name if tool else None,
            prompt_id=given[:512] if isinstance(given, str) and given and kind != "stop" else self._round.prompt_id,
            payload={key: value for key, value in payload.items() if value is not None},
        )


def _message(entry: Mapping[str, Any]) -> str:
    message = entry.get("message")
    return str(message.get("id")) if isinstance(message, dict) and entry.get("type") == "assistant" else ""


def opened(path: Path) -> IO[bytes]:
    """Open a regular file, gzipped or not. Anything else is refused, because reading a pipe could block for ever."""
    raw = os.fdopen(open_regular(path), "rb", buffering=1 << 18)
    return cast(IO[bytes], _Unzipped(raw)) if path.suffix == ".gz" else raw


class _Unzipped(gzip.GzipFile):
    """A gzip reader that also closes the file under it."""

    def __init__(self, under: IO[bytes]) -> None:
        super().__init__(fileobj=under, mode="rb")
        self._under = under

    def close(self) -> None:
        super().close()
        self._under.close()


def entries(path: Path, offset: int, whole: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the entries that matter, each with the offset of its line."""
    with opened(path) as source:
        source.seek(offset)
        for at, line in _lines(source, offset, whole):
            if _matters(line) and (entry := _parsed(line)):
                yield at, entry


def _lines(source: IO[bytes], offset: int, whole: bool) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its offset; a line that is too long becomes an empty one. A truncated gzip just ends."""
    while True:
        try:
            line = source.readline(MAX_LINE_BYTES)
            size = len(line)
            while len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                line = source.readline(MAX_LINE_BYTES)
                size += len(line)
                if len(line) < MAX_LINE_BYTES or line.endswith(b"\n"):
                    line = b"\n"
        except (EOFError, gzip.BadGzipFile, OSError):
            return
        # A line without its end is still being written.
        if not line or not (line.endswith(b"\n") or whole):
            return
        yield offset, line
        offset += size


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _matters(line: bytes) -> bool:
    """Whether to parse a line. Most bytes of a file are in lines of other kinds."""
    if line.startswith(b'{"type":"'):
        return line.startswith(_BEGINS)
    return b'"attachment":{' not in line[:1000] and any(mark in line for mark in _CHAIN)


def _stamp(given: Any) -> str | None:
    """Return a time in our form; None if it is not a time."""
    try:
        return ids.from_ms(ids.at_ms(given)) if isinstance(given, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def beside(path: Path) -> list[Path]:
    """Return the transcripts of a session's subagents. They are in a folder named after the session."""
    folder = path.with_suffix("") / "subagents"
    return sorted(folder.rglob("*.jsonl")) if folder.is_dir() else []


def find(root: Path) -> Iterable[Path]:
    """Return the transcripts of sessions. There is one folder for each working directory."""
    return root.glob("*/*.jsonl")


def last_message(path: str, roots: tuple[Path, ...]) -> str:
    """Return the assistant's last message in a transcript. Only files under the agent's roots are opened."""
    try:
        file = Path(path).resolve(strict=True)
        if file.suffix != ".jsonl" or not any(file.is_relative_to(root.resolve()) for root in roots):
            return ""
        with os.fdopen(open_regular(file), "rb") as source:
            source.seek(max(0, os.fstat(source.fileno()).st_size - TAIL_BYTES))
            tail = source.read(TAIL_BYTES).splitlines()
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links, in Python 3.11
        return ""
    parts: list[str] = []
    message_id = None
    # Each block is a line. Those of the last message share its id.
    for line in reversed(tail):
        message = _assistant(line)
        if message is None:
            continue
        if message_id not in (None, message.get("id")):
            break
        blocks = [block for block in lines.blocks(message) if block.get("type") == "text"]
        if texts := [block["text"] for block in blocks if isinstance(block.get("text"), str)]:
            message_id = message.get("id")
            parts[:0] = texts
    return without_reminders("\n".join(parts))


def _assistant(line: bytes) -> dict[str, Any] | None:
    if b'"assistant"' not in line:
        return None
    entry = _parsed(line)
    if entry is None or entry.get("type") != "assistant" or entry.get("isSidechain"):
        return None
    message = entry.get("message")
    return message if isinstance(message, dict) and isinstance(message.get("content"), list) else None
