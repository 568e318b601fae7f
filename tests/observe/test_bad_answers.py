"""Models that answer badly: cut answers, and usage that can't be."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from endpoint import Endpoint, Reply, Request, Step, answer, text

from backstory.model import ContentId, Event, ModelCall, Round
from backstory.model import Reply as Told
from backstory.observe.model_observer import ModelObserver
from backstory.observe.providers import Ask, Choice, connect
from backstory.settings import Settings, Tuning
from backstory.store.db import Store

MODELS = ("anthropic", "openai")
needs_sqlite = pytest.mark.parametrize("engine", ["sqlite"])


def event(number: int, kind: Any = "tool", **payload: Any) -> Event:
    return Event(number, 1, 1, kind, "2026-02-21T03:39:07.123Z", "Bash" if kind == "tool" else None, None, payload)


def round_of(count: int) -> Round:
    """So many tool uses, and the end."""
    used = [event(n, tool_input={"command": f"make step-{n}"}, tool_response="ok") for n in range(1, count)]
    stop = event(count, "stop", last_assistant_message="Done.")
    return Round(1, ContentId("c"), None, "claude-code", "shop", "/home/me/shop", 1, "Go", (*used, stop))


def settings_for(provider: str, endpoint: Endpoint, data: Path) -> Settings:
    url = endpoint.url + ("/v1" if provider == "openai" else "")
    tuning = Tuning(past_days=0)
    return Settings(data, provider=provider, model="scripted", api_key="sk-test", base_url=url, tuning=tuning)


def observed(provider: str, endpoint: Endpoint, store: Store, data: Path, round: Round) -> Told:
    async def ask() -> Told:
        asking = ModelObserver(settings_for(provider, endpoint, data), store)
        try:
            return await asking(round)
        finally:
            await asking.close()

    return asyncio.run(ask())


def numbers(request: Request) -> list[str]:
    return re.findall(r"make step-(\d+)", request.texts("user")[-1])


@needs_sqlite
@pytest.mark.parametrize("provider", MODELS)
def test_a_round_whose_answer_was_cut_is_asked_about_in_parts(provider: str, store: Store, tmp_path: Path) -> None:
    """The part of an answer is not taken for the whole: each event is told of, and the summary is the round's."""

    def script(request: Request) -> Step:
        told = answer(request, every=1)
        if len(numbers(request)) > 3:
            return Reply([text(told[: len(told) * 2 // 3])], is_cut=True)
        return told

    with Endpoint(script) as endpoint:
        reply = observed(provider, endpoint, store, tmp_path, round_of(6))
        asked = [numbers(request) for request in endpoint.requests]
    assert asked == [["1", "2", "3", "4", "5"], ["1", "2", "3"], ["4", "5"]]
    assert (reply.provider, reply.instead_of, len(reply.calls)) == (provider, "", 3)
    assert [seen.event_ids for seen in reply.observations] == [(n,) for n in range(1, 7)]
    assert reply.summary and reply.summary.completed == "All done"


@needs_sqlite
@pytest.mark.parametrize(("said", "asks"), [("", 1), ("<memory><observation><title>Half", 1), ("all", 2)])
def test_what_is_cut_again_is_told_by_the_rules_and_marked(said: str, asks: int, store: Store, tmp_path: Path) -> None:
    """So is an answer that did not come to its first observation: smaller parts would not help it."""

    def script(request: Request) -> Step:
        return Reply([text(answer(request, every=1) if said == "all" else said)], is_cut=True)

    with Endpoint(script) as endpoint:
        reply = observed("openai", endpoint, store, tmp_path, round_of(6))
        assert len(endpoint.requests) == asks
    assert (reply.provider, reply.instead_of, len(reply.calls)) == ("offline", "openai", asks)
    assert reply.summary


@pytest.mark.parametrize("provider", MODELS)
def test_usage_that_can_not_be_is_estimated(provider: str, tmp_path: Path) -> None:
    """Negative, absurdly large, no number: the budget and the ledger count our own estimate."""
    told: list[Any] = [-5, 10**18, "many", float("nan"), float("-inf"), [], {"a": 1}]
    steps: list[Step] = [Reply([text("<memory></memory>")], input_tokens=n, output_tokens=n) for n in told]
    with Endpoint(steps) as endpoint:
        chosen = settings_for(provider, endpoint, tmp_path)
        choice = Choice(provider, chosen.model, chosen.base_url, chosen.api_key)

        async def ask() -> list[ModelCall]:
            model = connect(choice)
            try:
                return [(await model(Ask("one two three", "four five"))).call for _ in told]
            finally:
                await model.close()  # type: ignore[attr-defined]

        calls = asyncio.run(ask())
    for number, call in zip(told, calls, strict=True):
        assert (call.input_tokens, call.output_tokens, call.cached_tokens) == (5, 7, 0), number
