"""The summary of a round: what was asked, looked at, learned, done, and what is next."""

from __future__ import annotations

from collections.abc import Iterable

from backstory.model import Summary
from backstory.observe.offline.acts import mapping
from backstory.observe.offline.changes import compact, is_test
from backstory.observe.offline.draft import asked
from backstory.observe.offline.failures import failures_of, own_making, test_name, what_failed, where_failed, why_failed
from backstory.observe.offline.message import causes, conclusion, decisions, open_points
from backstory.observe.offline.scene import Scene
from backstory.observe.offline.stories import Outcome
from backstory.observe.offline.symbols import CONFIG, PROSE, language
from backstory.observe.offline.text import clip, code, joined, tidy
from backstory.observe.offline.todos import unfinished

LIMIT = 700


def summarize(scene: Scene) -> Summary | None:
    """The round's summary, if the round is over and there is something to say."""
    if scene.stop is None:
        return None
    summary = Summary(
        request=_request(scene),
        investigated=_investigated(scene),
        learned=_learned(scene),
        completed=_completed(scene),
        next_steps=_next(scene),
        notes=_notes(scene),
    )
    return None if summary == Summary() else summary


def _told(parts: Iterable[str], limit: int = LIMIT) -> str:
    """The parts as sentences, as many as fit."""
    text = ""
    for part in dict.fromkeys(tidy(part, 320).rstrip(":：") for part in parts):
        if not part:
            continue
        sentence = part if part.endswith((".", "!", "?", "…", "。", "？")) else f"{part}."
        if text and len(text) + len(sentence) + 1 > limit:
            break
        text = f"{text} {sentence}".strip()
    return tidy(text, limit)


def _request(scene: Scene) -> str:
    spoken = mapping(scene.stop.payload).get("last_user_message") if scene.stop else ""
    return (
        asked(scene.round.prompt, 320) if scene.round.prompt else asked(spoken, 320) if isinstance(spoken, str) else ""
    )


def _investigated(scene: Scene) -> str:
    changed = {change.path for change in scene.all_changes}
    reads = [act.path for act in scene.acts if act.verb == "read" and not act.failed and act.path]
    reads.sort(key=lambda path: path in changed)
    patterns = [code(act.text("pattern", "query"), 40) for act in scene.acts if act.verb == "search" and not act.failed]
    pages = [act.text("url", "query") for act in scene.acts if act.verb in ("fetch", "web") and not act.failed]
    agents = [act.text("description") for act in scene.acts if act.verb == "delegate" and not act.failed]
    ran = [outcome.label for outcome in scene.outcomes if outcome.main.purpose in ("test", "lint", "types", "build")]
    return _told(
        [
            f"Read {joined(reads, 6)}" if reads else "",
            f"Searched for {joined(patterns, 4)}" if patterns else "",
            f"Consulted {joined([clip(page, 80) for page in pages], 3)}" if pages else "",
            f"Delegated: {joined(agents, 3)}" if any(agents) else "",
            f"Ran {joined(ran, 4)}" if ran and not scene.all_changes else "",
        ]
    )


def _because(outcome: Outcome) -> str:
    error = why_failed(outcome)
    return f": {clip(error, 160)}" if error else ""


def _learned(scene: Scene) -> str:
    parts = []
    for story in [story for story in scene.stories if not (story.fixed_by and own_making(scene, story))][:3]:
        where = where_failed(story.first)
        state = "passes now" if story.fixed_by else "still failing"
        parts.append(f"{what_failed(story)} failed{f' at {where}' if where else ''}{_because(story.first)} ({state})")
    reasons = causes(scene.message)[:2]
    chosen = [sentence for sentence in decisions(scene.message)[:2] if sentence not in reasons]
    if not scene.all_changes and not reasons:
        parts.append(conclusion(scene.message, 400))
    return _told([*parts, *reasons, *chosen])


def _completed(scene: Scene) -> str:
    parts = []
    if scene.all_changes:
        parts.append(conclusion(scene.message, 240, 1))
        ranked = sorted(scene.all_changes, key=lambda change: (is_test(change.path), -change.weight))
        parts += [compact(change) for change in ranked[:5]]
        if len(ranked) > 5:
            parts.append(f"Also changed: {joined([change.path for change in ranked[5:]], 6)}")
    parts += [deed.fact for deed in scene.deeds if deed.kind != "version"][-5:]
    last = {
        outcome.label: outcome
        for outcome in scene.outcomes
        if outcome.main.purpose in ("test", "lint", "types", "build")
    }
    checks = [f"{label}: {o.run.tally if o.run else 'passed' if o.ok else 'failed'}" for label, o in last.items()]
    # The results come before the long tail of files: they are what the next session asks first.
    parts.insert(1 if scene.all_changes else 0, f"Checks: {'; '.join(checks[-4:])}" if checks else "")
    return _told(parts, 900)


def _next(scene: Scene) -> str:
    parts = []
    for story in scene.stories:
        if story.fixed_by is None and (
            story.is_test or story.first.main.purpose in ("lint", "types", "build", "git", "migrate")
        ):
            names = [test_name(failure.name) for failure in failures_of(story)]
            parts.append(
                f"Still failing: {joined(names, 4) or code(story.first.label, 60)}{_because(story.failing[-1])}"
            )
    todos = unfinished([*scene.round.earlier, *scene.round.events])
    parts += [f"Not done: {joined(todos, 5)}"] if todos else []
    return _told([*parts, *open_points(scene.message)[:5]])


def _notes(scene: Scene) -> str:
    if not scene.all_changes:
        return ""
    parts = []
    last_commit = max((deed.act.at for deed in scene.deeds if deed.kind == "commit"), default=-1)
    loose = [change.path for change in scene.all_changes if any(act.at > last_commit for act in change.acts)]
    if loose:
        parts.append(f"Not committed in this round: {joined(loose, 4)}")
    source = [change for change in scene.all_changes if language(change.path) not in PROSE | CONFIG]
    last_edit = max((act.at for change in source for act in change.acts), default=-1)
    if source and not any(outcome.act.at > last_edit and outcome.main.purpose == "test" for outcome in scene.outcomes):
        parts.append("No test run was seen after the last edit")
    flaky = [
        what_failed(story)
        for story in scene.stories
        if story.fixed_by
        and failures_of(story)
        and not story.mended_by
        and not any(a.verb in ("edit", "write") for a in story.between)
    ]
    if flaky:
        parts.append(f"{joined(flaky, 3)} failed and then passed without an edit in between")
    return _told(parts)
