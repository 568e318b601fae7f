"""Reports from the transcripts of agents in groups: which group they belong to, and where its files are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from backstory.groups.names import WORKSPACE, GroupPaths, of_path
from backstory.model import Report


def in_group(data: Path, file: Path, reports: Iterable[Report]) -> Iterator[Report]:
    """Return the reports of a transcript. Those of a group's agent get the paths that its files have on this machine.

    The agent can write anything into its transcript. What it says about a session of another id is left out.
    """
    group = of_path(data, str(file))
    own_ids = {file.stem, *(part.name for part in file.parents)}  # a subagent's is in the folder of its session
    for report in reports:
        if group is None:
            yield report
        elif report.content_id in own_ids:
            folder = str(GroupPaths(data, group).folder)
            is_inside = report.cwd == WORKSPACE or report.cwd.startswith(f"{WORKSPACE}/")
            cwd = folder + report.cwd.removeprefix(WORKSPACE) if is_inside else folder
            yield replace(report, cwd=cwd, transcript_path=str(file))
