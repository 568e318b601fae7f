"""Stories: what failed in a round, whether it was fixed, and by what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from backstory.observe.offline.acts import Act
from backstory.observe.offline.errors import Problem, read_problem
from backstory.observe.offline.runners import read_run
from backstory.observe.offline.runs import Run
from backstory.observe.offline.shell import Command, read_commands

_WRITES = re.compile(
    r"\b(?:sed|perl) -\w*i|\s-w\b|--fix\b|--write\b|\b(?:fmt|format|tidy|generate|install|sync|add|get|restore|"
    r"checkout|stash|apply|reset|pull)\b"
    r"|(?<![0-9&])>{1,2}\s*[\w./]|\btee\b|<<"
)
#: Tests that ran everywhere were built everywhere.
_PROVES = {
    "test:go test": ("go build", "go vet"),
    "test:cargo test": ("cargo build", "cargo check"),
    "test:dotnet test": ("dotnet build",),
}
CHECKS = ("test", "lint", "types", "build")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of something that can fail."""

    act: Act
    commands: tuple[Command, ...]
    run: Run | None
    problem: Problem | None
    ok: bool
    keys: frozenset[str]

    @property
    def main(self) -> Command:
        """The command that it is told by: a check before anything else."""
        return min(self.commands, key=lambda c: CHECKS.index(c.purpose) if c.purpose in CHECKS else 9)

    @property
    def label(self) -> str:
        """How a reader knows it."""
        return self.run.runner if self.run and self.main.purpose != "test" else self.main.key

    @property
    def targets(self) -> frozenset[str]:
        """What its tests were narrowed to."""
        return frozenset(target for command in self.commands if command.purpose == "test" for target in command.targets)


@dataclass(slots=True)
class Story:
    """A failure, its repetitions, and the run that showed it gone."""

    failing: list[Outcome]
    waiting: set[str] = field(default_factory=set)  #: what has not been seen to succeed since
    fixed_by: Outcome | None = None
    between: list[Act] = field(default_factory=list)  #: edits and commands from the first failure to the success

    @property
    def mended_by(self) -> list[str]:
        """Commands in between that can have mended it: installs, and those that write files."""
        ran = [act.command for act in self.between if act.verb == "run" and not act.failed]
        return [command for command in ran if _WRITES.search(command[:2000])]

    @property
    def first(self) -> Outcome:
        """The run that showed it."""
        return self.failing[0]

    @property
    def is_test(self) -> bool:
        """Whether tests failed, rather than a command."""
        return self.first.run is not None


def read_outcomes(acts: Sequence[Act]) -> list[Outcome]:
    """The runs of a round that mean something: looking around does not."""
    outcomes = []
    for act in acts:
        if act.verb == "run" and (outcome := _outcome(act)):
            outcomes.append(outcome)
    return outcomes


def _outcome(act: Act) -> Outcome | None:
    commands = tuple(command for command in read_commands(act.command) if command.purpose != "noise")
    if not commands:
        return None
    purposes = {command.purpose for command in commands}
    tested = "test" in purposes or (purposes & {"other", "build"} and not purposes & {"git", "pr"})
    run = read_run(act.output) if tested else None
    checked = purposes & {"lint", "types", "build", "test"}
    failed_run = run is not None and not run.ok
    piped = bool(checked) and run is None and "|" in act.command  # the exit code says nothing: the output decides
    unexplained = run is not None and not run.ok and not run.failures  # no test ran: the build says why
    problem = read_problem(act.output) if act.failed or piped or unexplained else None
    ok = not act.failed and not failed_run and not (problem and problem.where)
    # Of a chain that failed, the checks are what must be seen to pass again, not the formatter before them.
    meant = [command for command in commands if command.purpose in CHECKS] if checked and not ok else commands
    keys = {f"test:{command.key}" if command.purpose == "test" else command.key for command in meant}
    if run is not None and (ok or failed_run):
        keys = {*keys, f"test:{run.runner}"} if ok else {f"test:{run.runner}"}
    if ok and not any(command.targets for command in commands):
        keys |= {built for key in keys for built in _PROVES.get(key, ())}
    return Outcome(act, commands, run if ok or failed_run else None, problem, ok, frozenset(keys))


def read_stories(acts: Sequence[Act], outcomes: Sequence[Outcome]) -> list[Story]:
    """One story for each thing that failed in the round."""
    stories: dict[frozenset[str], Story] = {}
    for outcome in outcomes:
        if not outcome.ok and _worth_telling(outcome):
            story = stories.setdefault(outcome.keys, Story([]))
            story.failing.append(outcome)
            story.waiting, story.fixed_by = set(outcome.keys), None
        elif outcome.ok:
            for story in stories.values():
                if story.fixed_by is None and _covers(outcome, story):
                    story.waiting -= outcome.keys
                    story.fixed_by = None if story.waiting else outcome
    for story in stories.values():
        end = story.fixed_by.act.at if story.fixed_by else len(acts) + 10**6
        story.between = [act for act in acts if story.first.act.at < act.at < end]
    return list(stories.values())


def _worth_telling(outcome: Outcome) -> bool:
    if outcome.run is not None:
        return True
    purposes = {command.purpose for command in outcome.commands}
    return outcome.problem is not None and purposes != {"version"}


def _covers(outcome: Outcome, story: Story) -> bool:
    """Whether a success says something about what failed: a narrower test run does only if it ran those tests."""
    last = story.failing[-1]
    if not story.is_test or not outcome.targets or outcome.targets >= last.targets > frozenset():
        return True
    if last.run is None:
        return True
    names = [failure.name for failure in last.run.failures]
    return all(any(_within(name, target) for target in outcome.targets) for name in names)


def _within(name: str, target: str) -> bool:
    parts = [part.strip("^$()") for part in target.replace("::", "|").split("|")]
    return any(part and (part in name or name in part) for part in parts)
