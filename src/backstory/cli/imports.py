"""import: reads transcripts of agents, conversations and exports into memory."""

from __future__ import annotations

import argparse
import functools
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backstory import ids
from backstory.agents import AGENTS, Agent
from backstory.agents.transcripts import Mark
from backstory.cli import exchange, import_turns, show
from backstory.cli.worker import RetryingClient
from backstory.errors import BackstoryError, NotFound
from backstory.model import Report
from backstory.paths import expanded, is_observers

#: A conversation without an event for this long counts as ended, in milliseconds.
ENDED_AFTER_MS = 3_600_000
ROUTE = "/api/import/reports"


def add(commands: Any) -> None:
    text = "Import earlier conversations or an export. You can interrupt an import and run it again."
    top = commands.add_parser("import", help="import earlier conversations or an export", description=text)
    top.takes_json()
    sources = top.add_subparsers(title="sources", metavar="SOURCE", required=True)
    for agent in AGENTS.values():
        _add_agent(sources, agent)
    import_turns.add_source(sources)
    exchange.add_source(sources)


def _add_agent(sources: Any, agent: Agent) -> None:
    """Add `import AGENT PATH`, which reads the transcripts of one agent."""
    root, endings = agent.transcripts.roots(Path("~"), {})[0], " or ".join(agent.transcripts.suffixes)
    text = f"Import transcripts of {agent.title}: a file, a folder, or all of {root}."
    source = sources.add_parser(agent.name, help=f"transcripts of {agent.title}", description=text)
    source.add_argument("path", metavar="PATH", type=Path, help=f"a {endings} file, or a folder of them")
    source.add_argument("--project", default="", metavar="NAME", help="store everything under this project")
    source.runs_with_json(functools.partial(_import_agent, agent))


def _import_agent(agent: Agent, options: argparse.Namespace) -> int:
    files = transcripts(agent, options.path)
    if not files:
        endings = " or ".join(agent.transcripts.suffixes)
        raise NotFound(f"There are no transcripts in {options.path}.", f"Give a {endings} file, or a folder of them.")
    counts: Counter[str] = Counter(files=len(files), unchanged=0, unreadable=0, added=0, known=0, skipped=0)
    sizes = {file: file.stat().st_size for file in files}
    started, client, done = time.monotonic(), RetryingClient(), 0
    progress = show.ProgressBar(quiet=options.json)
    for count, file in enumerate(files, 1):
        try:
            counts.update(_import(agent, file, client, options.project))
        except OSError:
            counts["unreadable"] += 1
        done += sizes[file]
        progress.show(done, sum(sizes.values()), f"{count}/{len(files)} transcripts, {counts['added']} events added")
    progress.end()
    result: dict[str, Any] = dict(counts) | {"seconds": round(time.monotonic() - started, 1)}
    if not show.printed_json(options, result):
        print(f"{show.count(result['files'], 'transcript')} in {result['seconds']} s.")
        print(f"{show.count(result['added'], 'event')} added, {result['known']:,} already known.")
        if result["unchanged"]:
            has = show.count(result["unchanged"], "transcript has", "transcripts have")
            print(f"{has} not changed since the last import.")
        if result["skipped"]:
            skipped = show.count(result["skipped"], "event")
            print(f"{skipped} not stored: private, of a tool that is skipped, or of an excluded project.")
        if result["unreadable"]:
            print(f"{show.count(result['unreadable'], 'transcript')} could not be read.")
        queue = client.get("/api/health")["queue"]
        if waiting := queue["queued"] + queue["leased"]:
            print(f"{show.count(waiting, 'event')} to be observed; `backstory status` says when that is done.")
    return 1 if counts["unreadable"] else 0


def transcripts(agent: Agent, path: Path) -> list[Path]:
    """The transcripts at a path, oldest conversation first, so that they are observed in the order of time."""
    endings = agent.transcripts.suffixes
    try:
        here = expanded(path).resolve(strict=True)
        if not here.is_dir():
            return [here] if here.name.endswith(endings) else []
        files = [file for ending in endings for file in here.rglob(f"*{ending}")]
        files = [file for file in files if file.is_file() and not is_observers(file)]
    except OSError as error:
        raise BackstoryError(f"{path} could not be read: {error.strerror}.", "Check the path.") from None
    return sorted(files, key=lambda file: (_started_at(agent, file), str(file)))


def _started_at(agent: Agent, file: Path) -> str:
    try:
        first = next(iter(agent.transcripts.read(file, Mark(), True)), None)
    except OSError:
        first = None
    return first.occurred_at if first else ""


def _import(agent: Agent, file: Path, client: RetryingClient, project: str) -> Counter[str]:
    """Import one file in batches. Skip it if it has not changed since its last import."""
    from backstory.capture.backfill import report_batches

    state = {"path": str(file), **asdict(agent.transcripts.state(file))}
    if client.get(ROUTE, path=str(file))["file"] == state:
        return Counter(unchanged=1)
    counts: Counter[str] = Counter()
    for batch in report_batches(_with_end(agent.transcripts.read(file, Mark(), True))):
        body = {"reports": [_body(report) for report in batch], "project": project, "done": None}
        counts += Counter(client.post(ROUTE, body))
    client.post(ROUTE, {"reports": [], "project": project, "done": state})
    return counts


def _with_end(reports: Iterable[Report]) -> Iterator[Report]:
    """The reports, followed by a `session_end` for each conversation that counts as ended."""
    last: dict[str, Report] = {}
    for report in reports:
        if report.payload.get("agent_id") is None and report.kind not in ("title", "usage"):
            last[report.content_id] = report
        yield report
    for report in last.values():
        if ids.at_ms(report.occurred_at) < ids.now_ms() - ENDED_AFTER_MS:
            yield Report(
                agent=report.agent,
                kind="session_end",
                content_id=report.content_id,
                event_id=f"{report.event_id}-end"[-512:],
                occurred_at=report.occurred_at,
                cwd=report.cwd,
                git_branch=report.git_branch,
                payload={"reason": "imported"},
            )


def _body(report: Report) -> dict[str, Any]:
    body = asdict(report)
    body["session_id"] = body.pop("content_id")
    for name in ("transcript_path", "is_notification"):
        del body[name]
    return body
