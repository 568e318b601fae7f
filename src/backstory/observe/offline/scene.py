"""A scene: one round, read once, for all the rules that tell about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backstory.model import Event, Round
from backstory.observe.offline.acts import Act, mapping, read_acts
from backstory.observe.offline.deeds import Deed, read_deeds
from backstory.observe.offline.draft import asked, intent, purpose
from backstory.observe.offline.edits import Change, read_changes
from backstory.observe.offline.stories import Outcome, Story, read_outcomes, read_stories
from backstory.observe.offline.text import without_reminders


@dataclass(frozen=True, slots=True)
class Scene:
    """What the acts of a round come to."""

    round: Round
    acts: Sequence[Act]
    changes: Sequence[Change]  #: by the acts to be told now
    all_changes: Sequence[Change]  #: by the whole round
    outcomes: Sequence[Outcome]
    stories: Sequence[Story]
    deeds: Sequence[Deed]
    ask: str
    intent: str
    message: str  #: the assistant's last one, if the round is over

    @property
    def stop(self) -> Event | None:
        """The round's end, if it is there."""
        return self.round.stop

    def outcome_after(self, at: int) -> Outcome | None:
        """The last test run after this point of the round."""
        runs = [outcome for outcome in self.outcomes if outcome.run and outcome.act.at > at]
        return runs[-1] if runs else None


def read_scene(round_: Round) -> Scene:
    """Read a round."""
    acts = read_acts(round_)
    fresh = [act for act in acts if act.fresh]
    changes = read_changes(fresh)
    outcomes = read_outcomes(acts)
    stop = mapping(round_.stop.payload) if round_.stop else {}
    said, home = _string(stop.get("last_assistant_message"))[:40_000], _string(round_.cwd).rstrip("/")
    prompt = _string(round_.prompt) or _string(stop.get("last_user_message"))
    return Scene(
        round=round_,
        acts=acts,
        changes=changes,
        all_changes=changes if len(fresh) == len(acts) else read_changes(acts),
        outcomes=outcomes,
        stories=read_stories(acts, outcomes),
        deeds=read_deeds(acts, outcomes),
        ask=purpose(prompt),
        intent=intent(asked(prompt, 600)),
        message=without_reminders(said.replace(f"{home}/", "") if home else said),
    )


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
