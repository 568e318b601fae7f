"""Evidence: what the tool events of a round show: changed files, commits, checks and open to-dos."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backstory.model import ClaimMark, Event, Round
from backstory.observe.offline.acts import Act, mapping, read_acts, text_of, verb_of
from backstory.observe.offline.checks import CheckResult, is_doubtful, read_result
from backstory.observe.offline.commits import Commit, read_commits
from backstory.observe.offline.edits import Change, read_changes
from backstory.observe.offline.shell import QUIET, Command, read_commands
from backstory.observe.offline.text import blocks

#: Purposes of commands that check something.
CHECKS = ("test", "lint", "types", "build")
_ANSWERED = re.compile(r'"([^"]{1,400})"="([^"]{1,400})"')
#: Characters of an answer that decides nothing that lasts, if the question is for what to do now: `Start the work`.
SHORT_ANSWER = 40
#: A sentence that asks what the agent should do now.
_NEXT = re.compile(
    r"[^.!?]*\b(?:next|ready to (?:proceed|start|commit|merge)|(?:what|how|where) "
    r"(?:would you like|do you want|(?:should|shall) (?:i|we)) (?:me )?(?:to )?(?:do|proceed|start|continue))\b"
    r"[^.!?]*\?",
    re.IGNORECASE,
)
_ENDS = re.compile(r"\|&?\s*(?P<end>head|tail)\b(?:\s+-(?P<bytes>c)\S*|\s*(?:-n|--lines=)?\s*-?(?P<lines>\d{1,6}))?")
#: Picks lines of an output, but not those of failures, or all but those.
_PICKS = re.compile(
    r"\|&?\s*(?:(?:[ef]?grep|rg|ag|findstr|select-string)\b(?:(?!.*fail)(?!.*\s-\w*v)|(?=.*\s-\w*v).*fail|.*\s-\w*[clo])|(?:awk|sed)\b)",
    re.IGNORECASE,
)
#: The exit code of such a line is not that of each command in it.
_HIDES_EXIT_CODE = re.compile(
    r"[|;]|(?<!\\)\n|(?<![&>])&(?![&>])|(?:^|[\s(])!\s|--exit-zero\b|--issues-exit-code[= ]0\b|--if-present\b"
    r"|\bskipTests\b|\bmaven\.test\.|\bmake\s+-[a-z]*[in]"
)
#: What a shell prints if a check did not run, or did not end.
_NOT_RUN = re.compile(
    r"command not found|^\S+: (?:line \d+: )?(?:cd: |\S+: (?:not found|No such file))|: No module named \S+$"
    r"|^Command timed out after |^Command (?:is )?running in (?:the )?background|moved to the background",
    re.MULTILINE,
)
#: Exit codes of a program that was not found or could not be started, was ended by `timeout`, or was killed.
_NOT_RUN_CODES = frozenset((124, 126, 127, 130, 137, 143))


@dataclass(frozen=True, slots=True)
class Check:
    """The last run of a check. `passed` is None if its output does not tell."""

    name: str
    passed: bool | None
    detail: str
    act: Act

    def __str__(self) -> str:
        state = {True: "passes", False: "fails", None: "ran, result unknown"}[self.passed]
        return f"{self.name} {state}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """A question of the agent and what the user answered, or the heading of the agent's plan that the user accepted."""

    text: str
    details: tuple[str, ...]
    event_id: int
    mark: ClaimMark = ClaimMark.NONE


@dataclass(frozen=True, slots=True)
class RoundEvidence:
    """What the events of a round show."""

    acts: Sequence[Act]
    changes: Sequence[Change]
    commits: Sequence[Commit]
    checks: Sequence[Check]  #: the last run of each
    todos: Sequence[str]  #: not done
    answers: Sequence[UserAnswer]  #: what the user chose when the agent asked

    @property
    def uncommitted(self) -> list[str]:
        """The files that were changed after the last commit."""
        last = max((commit.act.at for commit in self.commits), default=-1)
        return [change.path for change in self.changes if any(act.at > last for act in change.acts)]


def read_evidence(round_: Round) -> RoundEvidence:
    acts = read_acts(round_)
    commits: list[Commit] = []
    checks: dict[str, Check] = {}
    for act in acts:
        if act.verb != "run":
            continue
        commands = read_commands(act.command)
        commits += read_commits(commands, act)
        if check := _check(commands, act):
            checks.pop(check.name, None)
            checks[check.name] = check
    todos = unfinished([*round_.earlier, *round_.events])
    return RoundEvidence(acts, read_changes(acts), commits, list(checks.values()), todos, answers_of(round_.events))


def changed_rounds(round_: Round, evidence: RoundEvidence | None = None) -> frozenset[int]:
    """Return the rounds of the session that changed files: by what they changed, or by the names of their tools."""
    changed = {number for number, tool in round_.tools if verb_of(tool, {}) in ("edit", "write")}
    return frozenset(changed | {round_.prompt_number} if evidence and evidence.changes else changed)


def answers_of(events: Iterable[Event]) -> list[UserAnswer]:
    """Return what the user chose when the agent asked."""
    return [answer for event in events for answer in _answers(event)]


def _answers(event: Event) -> list[UserAnswer]:
    if event.kind != "tool":
        return []
    payload = mapping(event.payload)
    given, response = mapping(payload.get("tool_input")), payload.get("tool_response")
    if event.tool_name == "AskUserQuestion":
        answers = mapping(mapping(response).get("answers"))
        pairs = [(str(question), str(answer)) for question, answer in answers.items()]
        pairs = pairs or _answers_in(text_of(response)[:20_000], given.get("questions"))
        told = [_answered(question, answer) for question, answer in pairs[:8]]
        return [UserAnswer(text, (), event.id, mark) for mark, text in told if text]
    plan = given.get("plan")
    if event.tool_name != "ExitPlanMode" or not isinstance(plan, str) or not plan.strip():
        return []
    parts = blocks(plan)
    heading = next((part.text for part in parts if part.kind == "heading"), parts[0].text if parts else "")
    details = tuple(part.text for part in parts if part.kind != "heading" and part.text != heading)
    title = f"Plan: {heading.removeprefix('Plan: ')}"
    # The user accepted it, and said nothing of it.
    return [UserAnswer(title, details[:8], event.id, ClaimMark.PROPOSED)] if heading else []


def _answers_in(text: str, questions: object) -> list[tuple[str, str]]:
    """The answers in the text of a response, to the questions that were asked. A question may look like an answer."""
    asked = [mapping(one).get("question") for one in questions] if isinstance(questions, list) else []
    return [(question, answer) for question, answer in _ANSWERED.findall(text) if question in asked]


def _answered(question: str, answer: str) -> tuple[ClaimMark, str]:
    """Return a question with what the user chose; of one for what to do now only what the agent said before it."""
    if len(answer) > SHORT_ANSWER or not _NEXT.search(question):
        return ClaimMark.NONE, f"{question} → {answer}"
    return ClaimMark.EARLIER, _NEXT.sub("", question).strip()


def _check(commands: Sequence[Command], act: Act) -> Check | None:
    """The check that a command line ran. Where others ran beside it, the exit code may be theirs."""
    main = next((command for purpose in CHECKS for command in commands if command.purpose == purpose), None)
    if main is None or _was_interrupted(act):
        return None
    result = read_result(act.output, main.words[0])
    return Check(main.name, _has_passed(commands, main, act, result), result.detail if result else "", act)


def _has_passed(commands: Sequence[Command], main: Command, act: Act, result: CheckResult | None) -> bool | None:
    """Whether a check passed; None if neither its output nor an exit code that is its own tells."""
    if result and not result.passed:
        return False
    is_own = not _HIDES_EXIT_CODE.search(act.command) and not act.input.get("run_in_background")
    is_run = act.exit_code not in _NOT_RUN_CODES and not _NOT_RUN.search(act.output[:1000])
    if act.failed:
        others = (one for one in commands if one is not main)
        return False if is_own and is_run and all(one.words[0] in QUIET for one in others) else None
    if result:
        return None if _is_cut(act, result) else True
    return True if is_own and is_run and act.exit_code == 0 and not is_doubtful(act.output) else None


def _is_cut(act: Act, result: CheckResult) -> bool:
    """Whether the output may go on with failures that are not shown."""
    lines = act.output.count("\n") + 1
    for cut in _ENDS.finditer(act.command):
        is_long = cut["bytes"] is not None or lines >= int(cut["lines"] or 10)
        if is_long and (cut["end"] == "head" or not result.is_last):
            return True
    return _PICKS.search(act.command) is not None


def _was_interrupted(act: Act) -> bool:
    return mapping(act.response).get("interrupted") is True or "interrupted by user" in act.output[:200]


def unfinished(events: Iterable[Event]) -> list[str]:
    """The to-dos still open: of the last list that was written, or of the tasks that were created one by one."""
    items: dict[str, str] = {}
    for event in events:
        payload = mapping(event.payload)
        given, response = mapping(payload.get("tool_input")), mapping(payload.get("tool_response"))
        if event.kind != "tool":
            continue
        if event.tool_name == "TodoWrite" and isinstance(todos := given.get("todos"), list):
            open_ = (todo for todo in map(mapping, todos[:50]) if todo.get("status") not in ("completed", "cancelled"))
            items = {str(number): _text(todo.get("content")) for number, todo in enumerate(open_)}
        elif event.tool_name == "TaskCreate":
            task = mapping(response.get("task"))
            items[str(task.get("id"))] = _text(task.get("subject") or given.get("subject"))
        elif event.tool_name == "TaskUpdate" and given.get("status") in ("completed", "deleted", "cancelled"):
            items.pop(str(given.get("taskId")), None)
    return [item for item in items.values() if item]


def _text(value: object) -> str:
    return value[:300] if isinstance(value, str) else ""
