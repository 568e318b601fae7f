"""Failures, told: what failed and what made it pass, or that it still fails."""

from __future__ import annotations

from collections.abc import Sequence

from backstory.observe.offline.changes import compact, facts_of, short
from backstory.observe.offline.draft import Draft, reason
from backstory.observe.offline.edits import Change
from backstory.observe.offline.runs import FailedTest
from backstory.observe.offline.scene import Scene
from backstory.observe.offline.stories import Outcome, Story
from backstory.observe.offline.text import clip, code, joined, lead, plural


def failure_drafts(scene: Scene) -> tuple[list[Draft], set[str]]:
    """The drafts about failures, and the paths of the changes that they tell as well."""
    drafts: list[Draft] = []
    told: set[str] = set()
    minor: list[Story] = []
    for story in scene.stories:
        if story.fixed_by is None:
            if any(outcome.act.fresh for outcome in story.failing):
                drafts.append(_open_draft(scene, story))
        elif not story.fixed_by.act.fresh or not _a_story(scene, story):
            continue
        elif own_making(scene, story):
            minor.append(story)
        else:
            draft, paths = _fixed_draft(scene, story)
            drafts.append(draft)
            told |= paths
    if len(minor) == 1:
        drafts.append(_fixed_draft(scene, minor[0])[0])
    elif minor:
        drafts.append(_on_the_way(scene, minor))
    return drafts, told


def _a_story(scene: Scene, story: Story) -> bool:
    """Whether something was fixed, or a named test came and went; a command mistyped once is no story."""
    return bool(failures_of(story) or story.mended_by or _edits_between(scene, story))


def failures_of(story: Story) -> list[FailedTest]:
    """Every test that failed in a story, once, the latest first."""
    found = {
        failure.name: failure for outcome in reversed(story.failing) if outcome.run for failure in outcome.run.failures
    }
    return list(found.values())


def why_failed(outcome: Outcome) -> str:
    """The error of one run in a line; empty if it shows none."""
    failures = outcome.run.failures if outcome.run else ()
    if failures:
        return next((failure.message for failure in failures if failure.message), "")
    return outcome.problem.message if outcome.problem else ""


def where_failed(outcome: Outcome) -> str:
    """The place that the error names."""
    failures = outcome.run.failures if outcome.run else ()
    place = next((failure.where for failure in failures if failure.where), "")
    if not failures and outcome.problem:
        place = outcome.problem.where
    return outcome.act.relative(place) if place else ""


def test_name(name: str) -> str:
    """A test's own name, without the path of its file."""
    return code(name.rsplit("::", 1)[-1].rsplit("/", 1)[-1] if "::" in name else name.rsplit(" > ", 1)[-1], 60)


def what_failed(story: Story) -> str:
    """What a story is about: test names, else the command."""
    names = [test_name(failure.name) for failure in failures_of(story)]
    return joined(names, 1) if names else code(story.first.label, 40)


def fact_of(failure: FailedTest) -> str:
    """One failing test as a fact."""
    where = f" ({failure.where})" if failure.where and failure.where not in failure.name else ""
    return f"{code(failure.name, 90)} failed{where}" + (f": {failure.message}" if failure.message else "")


def own_making(scene: Scene, story: Story) -> bool:
    """A slip made and mended within the round: worth a line, not a story of its own."""
    start = story.first.act.at
    edited = [change for change in scene.all_changes if any(act.at < start for act in change.acts)]
    if not edited:
        return False
    if not story.is_test:
        return True
    new = {name.rsplit(".", 1)[-1] for change in edited for name in change.added}
    names = {failure.name.split("/")[0].split("::")[-1].split("[")[0] for failure in failures_of(story)}
    return names <= new  # tests written first, or a build that never got to its tests


def _edits_between(scene: Scene, story: Story) -> list[Change]:
    ids = {act.id for act in story.between if act.verb in ("edit", "write")}
    return [change for change in scene.all_changes if any(act.id in ids for act in change.acts)]


def _fixed_draft(scene: Scene, story: Story) -> tuple[Draft, set[str]]:
    """One story from failure to success; files changed only within it are told by it."""
    done = story.fixed_by or story.first
    edits, mended = _edits_between(scene, story), story.mended_by[-2:]
    ids = {act.id for act in story.between}
    absorbed = [
        c for c in edits if scene.intent != "feature" and len(edits) <= 3 and all(act.id in ids for act in c.acts)
    ]
    error = next(filter(None, map(why_failed, story.failing)), "")
    facts = [fact_of(failure) for failure in failures_of(story)[:3]] or [_error_fact(story.first)]
    facts += [f"Changed in between: {compact(change)}" for change in edits if change not in absorbed][:2]
    facts += [fact for change in absorbed for fact in facts_of(change)[: 3 - len(absorbed) // 2]]
    facts += [f"Run in between: {code(text, 120)}" for text in mended if not edits or story.first.problem]
    facts = [*facts[:5], f"{code(done.label, 60)} passes now" + (f": {done.run.tally}" if done.run else "")]
    how = joined([short(change.path) for change in edits], 3) or joined([code(text, 60) for text in mended], 1)
    fixed = bool(edits or mended)
    title = _titled(
        f"Fix {what_failed(story)}" if fixed else f"{what_failed(story)} failed, then passed without an edit", error
    )
    why = reason(
        scene.message,
        [change.path.rsplit("/", 1)[-1] for change in edits] + [failure.name for failure in failures_of(story)],
    )
    draft = Draft(
        rank=0 if not own_making(scene, story) else 2 if story.is_test else 4,
        type="bugfix" if fixed else "discovery",
        title=title,
        subtitle=f"Passes after {'changes to ' if edits else ''}{how}" if how else "No edit was seen in between",
        narrative=" ".join(filter(None, [_told(story), lead(why, 240, 1), f"Asked: {scene.ask}" if scene.ask else ""])),
        facts=facts,
        concepts=["problem-solution", "what-changed"] if fixed else ["gotcha"],
        modified=[change.path for change in edits],
        acts=[outcome.act for outcome in story.failing]
        + [act for act in story.between if act.verb in ("edit", "write")]
        + [done.act],
    )
    return draft, {change.path for change in absorbed}


def _titled(what: str, error: str) -> str:
    return f"{what}: {error}" if error else what


def _error_fact(outcome: Outcome) -> str:
    where = where_failed(outcome)
    more = f" (and {outcome.problem.count - 1} more)" if outcome.problem and outcome.problem.count > 1 else ""
    place = f" at {where}" if where else ""
    return f"{code(outcome.label, 60)} failed{place}: {why_failed(outcome) or 'no error shown'}{more}"


def _told(story: Story) -> str:
    """The story in a sentence."""
    first, done = story.first, story.fixed_by
    tally = f" ({first.run.tally})" if first.run else ""
    times = f" {len(story.failing)} times" if len(story.failing) > 1 else ""
    end = (
        f"; later it passed ({done.run.tally})."
        if done and done.run
        else "; later it passed."
        if done
        else " and was not seen to pass in this round."
    )
    return f"{first.label} failed{times}{tally}{end}"


def _open_draft(scene: Scene, story: Story) -> Draft:
    """A failure that nothing in the round was seen to fix."""
    last = story.failing[-1]
    failures = list(last.run.failures) if last.run else []
    facts = [fact_of(failure) for failure in failures[:5]] or [_error_fact(last)]
    if len(failures) > 5:
        facts.append(
            f"{plural(len(failures) - 5, 'more test')} failed: {joined((test_name(f.name) for f in failures[5:]), 4)}"
        )
    names = [test_name(failure.name) for failure in failures]
    what = joined(names, 1) if names else code(last.label, 40)
    where = where_failed(last)
    check = bool(last.run) or last.main.purpose in ("lint", "types", "build", "git", "migrate")
    return Draft(
        rank=0 if check else 3,
        type="discovery",
        title=_titled(f"{what} {'fail' if len(names) > 1 else 'fails'}", why_failed(last)),
        subtitle=f"{last.label}: {last.run.tally}"
        if last.run
        else f"{code(last.main.text, 90)}{f' at {where}' if where else ''}",
        narrative=" ".join(filter(None, [_told(story), f"Asked: {scene.ask}" if scene.ask else ""])),
        facts=facts,
        concepts=["gotcha"],
        read=[where.rsplit(":", 1)[0]] if where and "/" in where else [],
        acts=[outcome.act for outcome in story.failing],
    )


def _on_the_way(scene: Scene, stories: Sequence[Story]) -> Draft:
    """Several slips, made and mended: one observation for all."""
    facts = []
    for story in stories:
        named = failures_of(story)
        facts.append(f"{fact_of(named[0])}; passes now" if named else f"{_error_fact(story.first)}; passes now")
    edits = {change.path: change for story in stories for change in _edits_between(scene, story)}
    acts = [outcome.act for story in stories for outcome in story.failing] + [
        story.fixed_by.act for story in stories if story.fixed_by
    ]
    errors = joined([clip(why_failed(story.first), 60) for story in stories], 1)
    return Draft(
        rank=2,
        type="bugfix",
        title=f"Fix {plural(len(stories), 'error')} met on the way: {errors}",
        subtitle=f"In {joined([story.first.label for story in stories], 4)}",
        narrative=" ".join(_told(story) for story in stories[:3]),
        facts=facts,
        concepts=["problem-solution"],
        modified=list(edits),
        acts=sorted(acts, key=lambda act: act.at),
    )
