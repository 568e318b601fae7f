"""The offline observer: rules that turn a round into observations and a summary, without a model or a network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from backstory.model import Reply, Round
from backstory.observe.offline.changes import change_drafts
from backstory.observe.offline.draft import Draft
from backstory.observe.offline.failures import failure_drafts
from backstory.observe.offline.lasting import deed_drafts
from backstory.observe.offline.message import decisions, points, stated
from backstory.observe.offline.reading import reading_drafts
from backstory.observe.offline.scene import Scene, read_scene
from backstory.observe.offline.summarize import summarize
from backstory.observe.offline.text import blocks, lead

#: Observations an ordinary round leaves; failures, commits and changed files are told even beyond it.
USUAL = 8


async def observe(round: Round) -> Reply:
    """What the round meant, by rules alone."""
    return await asyncio.to_thread(tell, round)


def tell(round_: Round) -> Reply:
    """The same, for callers that are not async: pure, and the same answer for the same round."""
    scene = read_scene(round_)
    failures, told = failure_drafts(scene)
    drafts = [
        *failures,
        *change_drafts(scene, told),
        *deed_drafts(scene),
        *decision_drafts(scene),
        *reading_drafts(scene),
    ]
    kept = [draft for draft in choose(drafts) if draft.event_ids and draft.title.strip()]
    return Reply(tuple(draft.told() for draft in kept), summarize(scene))


def choose(drafts: Sequence[Draft]) -> list[Draft]:
    """The most important drafts in the order of what they tell: rank 0 always, the others while there is room."""
    must = [draft for draft in drafts if draft.rank == 0]
    may = sorted((draft for draft in drafts if draft.rank), key=lambda draft: draft.rank)
    return sorted([*must, *may[: max(USUAL - len(must), 0)]], key=lambda draft: max(draft.event_ids, default=0))


def decision_drafts(scene: Scene) -> list[Draft]:
    """A plan that was accepted, and choices that the last message gives a reason for."""
    drafts = []
    for act in scene.acts:
        plan = act.text("plan")
        if act.verb == "plan" and act.fresh and not act.failed and plan.strip():
            heads = [block.text for block in blocks(plan) if block.kind == "heading"]
            title = next(iter(heads), "") or lead(plan, 90, 1)
            drafts.append(
                Draft(
                    1,
                    "decision",
                    f"Plan: {title.removeprefix('Plan: ')}",
                    facts=points(plan)[:6],
                    concepts=["why-it-exists"],
                    acts=[act],
                )
            )
            drafts[-1].narrative = next((block.text for block in blocks(plan) if block.kind == "text"), "")
    stop = scene.stop
    chosen = decisions(scene.message) if stop else []
    if stop and chosen:
        draft = Draft(
            2,
            "decision",
            stated(chosen[0]),
            narrative=f"Asked: {scene.ask}" if scene.ask else "",
            facts=chosen[:4],
            events=[stop.id],
        )
        draft.concepts = ["why-it-exists", "trade-off"]
        drafts.append(draft)
    return drafts
