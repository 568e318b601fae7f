"""doctor and repair: find problems, name them, and fix what is safe to fix."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from backstory.cli import show
from backstory.errors import BackstoryError

if TYPE_CHECKING:
    from backstory.cli.doctor.finding import Check, Finding


def add(commands: Any) -> None:
    text = (
        "Find problems and say what to do about each. Changes nothing. Exits with 1 if there is a problem. What is "
        "marked as a note is none."
    )
    doctor_ = commands.add_parser("doctor", help="find problems", description=text)
    doctor_.runs_with_json(doctor)
    text = "Fix the problems that `backstory doctor` finds. Says what was done, and what only you can do."
    repair_ = commands.add_parser("repair", help="fix the problems that doctor finds", description=text)
    repair_.runs_with_json(repair)


def checks() -> list[Check]:
    """Every check, in the order of repairs: the worker needs its settings, and most other repairs need the worker."""
    from backstory.cli.doctor import files, hooks, worker

    return [
        files.config,
        files.modes,
        files.disk,
        worker.process,
        worker.version,
        files.database,
        hooks.shim,
        hooks.settings,
        hooks.tools,
        hooks.doubled,
        files.spool,
        worker.away,
        worker.port,
        worker.jobs,
        files.rejected,
        files.unusable,
        worker.set_aside,
        worker.embedder,
        worker.provider,
        worker.sandbox,
        files.restored,
        hooks.path,
        hooks.transcripts,
    ]


def _find() -> list[Finding]:
    from backstory.cli.doctor.finding import look

    machine = look()
    return [finding for check in checks() for finding in check(machine)]


def problems_at_once() -> list[str]:
    """The names of the problems that are found without reading the whole database or every transcript."""
    from backstory.cli.doctor import files, hooks
    from backstory.cli.doctor.finding import look

    machine, slow = look(), (files.database, hooks.transcripts)
    findings = (finding for check in checks() if check not in slow for finding in check(machine))
    return list(dict.fromkeys(finding.name for finding in findings if not finding.note))


def _is_well(problems: list[Finding]) -> bool:
    from backstory.worker.problems import verdict

    return verdict([finding.name for finding in problems]) == "ok"


def _print(findings: list[Finding]) -> None:
    for finding in findings:
        text = f"{finding.name}{' (a note)' if finding.note else ''}: {finding.says}"
        if sys.stdout.isatty():
            show.paragraph(text, hang="  ", code="" if finding.note else show.YELLOW)
            show.paragraph(finding.do, "  ")
        else:
            print(f"{text}\n  {finding.do}")


def doctor(options: argparse.Namespace) -> int:
    findings = _find()
    problems = [finding for finding in findings if not finding.note]
    if options.json:
        show.as_json({"ok": _is_well(problems), "findings": [finding.shown() for finding in findings]})
        return 1 if problems else 0
    _print(findings)
    if any(finding.repair for finding in problems):
        print("Run `backstory repair` to fix what can be fixed automatically.")
    elif not problems:
        _print_well()
    return 1 if problems else 0


def _print_well() -> None:
    show.line(show.Styled("No problems found.", show.GREEN))


def repair(options: argparse.Namespace) -> int:
    repairs = []
    for name, did, is_fixed in _repairs():
        repairs.append({"name": name, "did": did, "fixed": is_fixed})
        if not options.json:
            print(f"{name}: {did}")
    left = _find()
    problems = [finding for finding in left if not finding.note]
    if options.json:
        show.as_json({"ok": _is_well(problems), "repairs": repairs, "findings": [finding.shown() for finding in left]})
        return 1 if problems else 0
    _print(left)
    if problems:
        print("Some problems are left for you to fix.")
    else:
        _print_well()
    return 1 if problems else 0


def _repairs() -> Iterator[tuple[str, str, bool]]:
    """Repair what can be repaired. Yield the name of each finding, a sentence, and whether it was fixed."""
    from backstory.cli import shims
    from backstory.cli.doctor.finding import look

    for check in checks():
        for finding in check(look()):
            if finding.repair is None:
                continue
            try:
                yield finding.name, finding.repair(), True
            except (BackstoryError, OSError) as error:
                yield finding.name, f"could not be fixed. {error}", False
    # They are written even if no agent calls them yet: a plugin that is installed next will.
    chosen = look().settings
    if shims.write_if_broken(chosen):
        yield "hook-missing", f"wrote the programs in {chosen.paths.bin}.", True
