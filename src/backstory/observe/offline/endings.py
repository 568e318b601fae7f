"""Endings: how a round ended without a closing reply, what was under way, and what the user rejected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from backstory.model import NO_REPLY_YET, Event, Round
from backstory.observe.offline.acts import Act, first, mapping, relative, text_of, verb_of
from backstory.observe.offline.text import blocks, clip, code, joined, tidy

#: Characters of a command, of the heading of a plan, and of the error that ended a round.
COMMAND = 100
PLAN = 80
ERROR = 120
_ASKING = "asking "
_PRESENTING = "presenting "
_DOING = {"run": "running", "edit": "editing", "write": "writing", "read": "reading", "fetch": "fetching"}


def is_unfinished(round_: Round) -> bool:
    """Whether a round has ended without a closing reply."""
    ending = mapping(round_.stop.payload) if round_.stop else {}
    return any(ending.get(name) for name in ("is_interrupted", "is_unfinished", "error"))


def ending_of(round_: Round, acts: Sequence[Act]) -> str:
    """Return how a round ended and what was under way; empty if it ended with a closing reply."""
    if not round_.stop:
        done = _last_done(acts)
        return f"{NO_REPLY_YET}, after {done}" if done else ""
    if not is_unfinished(round_):
        return ""
    ending = mapping(round_.stop.payload)
    tools = [event for event in (*round_.earlier, *round_.events) if event.kind in ("tool", "tool_failure")]
    last = tools[-1] if tools else None
    if ending.get("is_interrupted"):
        is_rejected = last and mapping(last.payload).get("rejected") == ""
        how = _rejection(last, round_.home) if last and is_rejected else "Interrupted by the user"
    elif isinstance(error := ending.get("error"), str):
        how = f"Ended with an API error ({clip(error, ERROR)})"
    else:
        how = "Ended without a closing reply"
    under_way = ending.get("under_way")
    uses = [mapping(use) for use in under_way[:3]] if isinstance(under_way, list) else []
    doing = [_doing(str(use.get("tool_name")), mapping(use.get("tool_input")), round_.home) for use in uses]
    if last and _was_interrupted(last):
        doing = doing or [_doing(last.tool_name or "", mapping(mapping(last.payload).get("tool_input")), round_.home)]
        acts = [act for act in acts if act.id != last.id]
    done = _last_done(acts)
    return how + (f" while {joined(doing, 3)}" if doing else "") + (f", after {done}" if done else "")


def rejections(round_: Round) -> list[str]:
    """Return what the user said when rejecting tool uses of a round, each with what was rejected."""
    events = (*round_.earlier, *round_.events)
    return [_rejection(event, round_.home) for event in events if mapping(event.payload).get("rejected")]


def _rejection(event: Event, home: str) -> str:
    payload = mapping(event.payload)
    what = _doing(event.tool_name or "", mapping(payload.get("tool_input")), home)
    reason = payload.get("rejected")
    did = f"did not answer {what[len(_ASKING) :]}" if what.startswith(_ASKING) else f"rejected {what}"
    return f"The user {did.replace(_PRESENTING, '')}" + (f": {reason}" if isinstance(reason, str) and reason else "")


def _was_interrupted(event: Event) -> bool:
    payload = mapping(event.payload)
    is_interrupted = payload.get("is_interrupt") or mapping(payload.get("tool_response")).get("interrupted")
    return is_interrupted is True or "[Request interrupted by user" in text_of(payload.get("error"))[:200]


def _last_done(acts: Iterable[Act]) -> str:
    """The last edit and the last command. A command may have failed."""
    last: dict[bool, Act] = {}
    for act in acts:
        if act.verb == "run" or (act.verb in ("edit", "write") and not act.failed):
            last[act.verb == "run"] = act
    done = sorted(last.values(), key=lambda act: act.at)
    return joined((_doing(act.tool, act.input, act.home) for act in done), 2)


def _doing(tool: str, inputs: Mapping[str, Any], home: str) -> str:
    """What a tool use does: `running X`, `editing Y`."""
    verb = verb_of(tool, inputs)
    if verb == "plan" and isinstance(plan := inputs.get("plan"), str):
        parts = blocks(plan)
        heading = next((part.text for part in parts if part.kind == "heading"), parts[0].text if parts else "")
        return f"{_PRESENTING}the plan “{clip(heading.removeprefix('Plan: '), PLAN)}”"
    questions = inputs.get("questions")
    if isinstance(questions, list) and questions and isinstance(asked := mapping(questions[0]).get("question"), str):
        return f"{_ASKING}“{tidy(asked, COMMAND)}”"
    if verb == "delegate" and isinstance(task := inputs.get("description"), str):
        return f"running an agent to “{tidy(task, COMMAND)}”"
    command = first(inputs, "command", "cmd", "script")
    path = first(inputs, "file_path", "filePath", "notebook_path", "path", "url")
    if verb == "run" and isinstance(command, str):
        return f"running {code(command, COMMAND)}"
    if verb in _DOING and isinstance(path, str):
        return f"{_DOING[verb]} {relative(path, home)}"
    return f"using {tool}"
