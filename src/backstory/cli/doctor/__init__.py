"""doctor and repair: what is wrong, said by name, and mended where that is safe."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from backstory.cli import show
from backstory.errors import BackstoryError

if TYPE_CHECKING:
    from backstory.cli.doctor.finding import Check, Finding


def add(commands: Any) -> None:
    text = "Look for what is wrong, name it and say what to do; exits 1 if something is."
    doctor_ = commands.add_parser("doctor", help="look for what is wrong", description=text)
    doctor_.add_argument("--json", action="store_true", help="print JSON")
    doctor_.set_defaults(run=doctor)
    text = "Mend what doctor finds, say what was done, and what only you can do."
    commands.add_parser("repair", help="mend what doctor finds", description=text).set_defaults(run=repair)


def checks() -> list[Check]:
    """Every check, in the order in which things are mended: a worker needs its settings, all else a worker."""
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
        files.restored,
        hooks.path,
        hooks.transcripts,
    ]


def _find() -> list[Finding]:
    from backstory.cli.doctor.finding import look

    scene = look()
    return [finding for check in checks() for finding in check(scene)]


def doctor(options: argparse.Namespace) -> int:
    found = _find()
    wrong = [finding for finding in found if not finding.note]
    if options.json:
        show.as_json({"ok": not wrong, "findings": [finding.shown() for finding in found]})
        return 1 if wrong else 0
    for finding in found:
        print(f"{finding.name}: {finding.says}\n  {finding.do}")
    mendable = any(finding.mend for finding in wrong)
    if wrong and mendable:
        print("`backstory repair` mends what can be mended.")
    elif not wrong:
        print("All is well.")
    return 1 if wrong else 0


def repair(options: argparse.Namespace) -> int:
    from backstory.cli.doctor.finding import look

    for check in checks():
        for finding in check(look()):
            if finding.mend is None:
                continue
            try:
                print(f"{finding.name}: {finding.mend()}")
            except (BackstoryError, OSError) as error:
                print(f"{finding.name}: could not be mended. {error}")
    left = _find()
    for finding in left:
        print(f"{finding.name}: {finding.says}\n  {finding.do}")
    wrong = [finding for finding in left if not finding.note]
    print("Something is left for you to do." if wrong else "All is well.")
    return 1 if wrong else 0
