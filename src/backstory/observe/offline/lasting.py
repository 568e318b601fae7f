"""Deeds, told: commits and what became of the repository, and what was installed, started or run."""

from __future__ import annotations

from backstory.observe.offline.deeds import Deed
from backstory.observe.offline.draft import Draft
from backstory.observe.offline.scene import Scene
from backstory.observe.offline.text import code, joined, plural

_VCS = ("commit", "push", "pr", "merge", "branch", "tag", "git")
_FILES = ("delete", "move")


def deed_drafts(scene: Scene) -> list[Draft]:
    """One draft for the repository's history, one for files moved or deleted, one for the rest."""
    fresh = [deed for deed in scene.deeds if deed.act.fresh]
    kinds = {
        "vcs": [deed for deed in fresh if deed.kind in _VCS],
        "files": [deed for deed in fresh if deed.kind in _FILES],
        "environment": [deed for deed in fresh if deed.kind not in _VCS + _FILES],
    }
    drafts = [
        _draft(scene, deeds, rank=0 if name != "environment" else 1)
        for name, deeds in kinds.items()
        if deeds and not _trivial(deeds, scene)
    ]
    return drafts + passing_drafts(scene)


def _trivial(deeds: list[Deed], scene: Scene) -> bool:
    """Versions that were looked up on the way are news only if nothing else was done."""
    return all(deed.kind == "version" for deed in deeds) and bool(scene.changes)


def _draft(scene: Scene, deeds: list[Deed], rank: int) -> Draft:
    commits = [deed for deed in deeds if deed.kind == "commit"]
    main = next(
        (deed for kind in ("pr", "commit", "merge", "push") for deed in reversed(deeds) if deed.kind == kind), deeds[0]
    )
    title = main.title
    if len(commits) > 1 and main.kind == "commit":
        title = f"{plural(len(commits), 'commit')}, the last: {main.title.partition(': ')[2] or main.title}"
    others = [deed.title for deed in deeds if deed is not main]
    return Draft(
        rank=rank,
        type="refactor" if main.kind == "move" else "change",
        title=title,
        subtitle=joined(others, 3),
        narrative=f"Asked: {scene.ask}" if scene.ask else "",
        facts=[deed.fact for deed in deeds[-6:]],
        concepts=["what-changed"],
        modified=[path for deed in deeds for path in deed.paths],
        acts=list({deed.act.id: deed.act for deed in deeds}.values()),
    )


def passing_drafts(scene: Scene) -> list[Draft]:
    """Checks that passed, told only where nothing was changed: then the result is what was wanted."""
    if scene.changes:
        return []
    told = {story.first.label for story in scene.stories}
    passed = [
        o
        for o in scene.outcomes
        if o.ok and o.act.fresh and o.label not in told and o.main.purpose in ("test", "lint", "types", "build")
    ]
    if not passed:
        return []
    last = {outcome.label: outcome for outcome in passed}
    facts = [f"{code(o.main.text, 120)} passed" + (f": {o.run.tally}" if o.run else "") for o in last.values()]
    label, outcome = next(reversed(last.items()))
    return [
        Draft(
            rank=1,
            type="discovery",
            title=f"{joined(list(last), 3)}: passed"
            if len(last) > 1
            else f"{label} passes" + (f": {outcome.run.tally}" if outcome.run else ""),
            narrative=f"Asked: {scene.ask}" if scene.ask else "",
            facts=facts,
            concepts=["how-it-works"],
            acts=[outcome.act for outcome in passed],
        )
    ]
