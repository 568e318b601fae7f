"""Routes of the feed: its entries, and what they can be filtered by."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec

from backstory import project, times
from backstory.errors import BadSetting
from backstory.live_settings import LiveSettings
from backstory.model import TYPES
from backstory.observe import modes
from backstory.settings import Settings
from backstory.store import feed, groups, projects
from backstory.store.db import Store, Tx
from backstory.store.feed import FeedFilter, FeedPlace
from backstory.worker.endpoints import Call, Endpoint, needs_read
from backstory.worker.routes.recall import ListQuery, Page, project_asked

#: Projects and branches that are listed, at most.
MAX_LISTED = 500
Short = Annotated[str, msgspec.Meta(max_length=300)]
Time = Annotated[str, msgspec.Meta(max_length=40)]


class FeedQuery(ListQuery):
    """Filters of the feed. Every filter that is not empty must match. What belongs to a group is shown only to who
    names the `group`, or `group:NAME` as the project. Without a `project`, the project of the directory `cwd` is
    listed, if memory has it."""

    cwd: str = ""
    branch: Short = ""
    agent: Short = ""
    type: Short = ""
    group: Short = ""
    kind: Literal["", "observation", "summary", "prompt"] = ""
    since: Time = ""
    until: Time = ""


class ChoicesQuery(msgspec.Struct):
    project: str = ""
    group: Short = ""


class Choices(msgspec.Struct):
    """What the filters of the feed can be set to. Branches and agents are those of the project, if one is named."""

    projects: list[dict[str, Any]]  #: name and key, the last used first
    branches: list[str]
    agents: list[str]
    types: list[str]
    groups: list[str]


class FeedRoutes:
    """The routes of the feed."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = LiveSettings(settings), store

    def table(self) -> list[Endpoint]:
        return [
            needs_read("GET", "/api/feed", self.feed, Page, query=FeedQuery),
            needs_read("GET", "/api/feed/choices", self.choices, Choices, query=ChoicesQuery),
        ]

    async def feed(self, call: Call) -> Page:
        """List observations, summaries and prompts together, newest first, without what is hidden."""
        query: FeedQuery = call.query
        asked = await project_asked(self._store, query)
        where = FeedFilter(
            project=_project_of(query.group) or asked.key,
            branch=query.branch,
            agent=query.agent,
            type=query.type,
            kind=query.kind,
            since=times.since(query.since),
            until=times.until(query.until),
        )
        after = feed.parse_place(query.cursor)
        rows = await asyncio.to_thread(self._store.read, lambda tx: feed.listed(tx, where, after, query.limit + 1))
        page = Page(rows[: query.limit])
        if len(rows) > query.limit:
            last = page.items[-1]
            page.next = str(FeedPlace(last["created_at"], last["kind"], last["id"]))
        return page

    async def choices(self, call: Call) -> Choices:
        """List what the feed can be filtered by."""
        query: ChoicesQuery = call.query
        where, own = _project_of(query.group) or query.project, call.principal.confined_to

        def work(tx: Tx) -> Choices:
            known = [] if own else [{"name": row["name"], "key": row["key"]} for row in projects.listed(tx, MAX_LISTED)]
            named = [own] if own else [row["name"] for row in groups.listed(tx)]
            return Choices(known, feed.branches(tx, where, MAX_LISTED), feed.agents(tx, where), [], named)

        result = await asyncio.to_thread(self._store.read, work)
        result.types = await asyncio.to_thread(self._types)
        return result

    def _types(self) -> list[str]:
        chosen = self._settings()
        try:
            return list({**dict.fromkeys(TYPES), **modes.load(chosen.mode, chosen.paths.modes).types})
        except BadSetting:
            return list(TYPES)  # `status` says so


def _project_of(group: str) -> str:
    return project.of_group(group).key if group else ""
