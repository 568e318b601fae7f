"""What keeps memory from working, as far as the worker knows, and the verdict on it. `doctor` looks for more."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from backstory.agents import AGENTS
from backstory.agents.install import Place
from backstory.observe.model_observer import ProviderState
from backstory.settings import Settings, environment
from backstory.store import backups


def verdict(problems: Collection[str]) -> str:
    """Say whether all is well, from the names of the problems that were found."""
    return "degraded" if problems else "ok"


def found(settings: Settings, provider: ProviderState, failing: Collection[str], dead: int) -> Iterator[str]:
    """Yield the names of the problems, as `doctor` calls them."""
    if not _is_reported_to(settings):
        yield "hooks-missing"
    if failing:
        yield "job-failing"
    if dead:
        yield "events-set-aside"
    if provider.trouble and provider.needs_action:
        yield "provider-trouble"
    if backups.restored(settings.paths):
        yield "database-restored"


def _is_reported_to(settings: Settings) -> bool:
    """Whether the hooks of an agent were installed, or an agent calls them in another way."""
    if any(settings.paths.installs.glob("*.json")):
        return True
    place = Place("user", Path.home(), Path.home(), environment())
    return any(agent.callers(place) for agent in AGENTS.values())
