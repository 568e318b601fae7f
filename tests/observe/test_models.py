"""The observer on models: the real worker, the real clients, a scripted endpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from box import Box
from endpoint import Endpoint, Request

DEMO = Path(__file__).parent.parent.parent / "demo" / "session.jsonl"
MODELS = ("anthropic", "openai")


def answer(request: Request, every: int = 5) -> str:
    """As a good model does: one observation for every five events, and the summary where it is asked for."""
    asked = request.texts("user")[-1]
    mark = re.findall(r'<memory round="(\w+)">', asked)[-1]
    numbers = [int(n) for n in re.findall(r'<(?:event n|said event)="(\d+)"', asked)]
    files = re.findall(r"^file_path: (\S+)", asked, re.MULTILINE)
    told = ""
    for at in range(0, len(numbers), every):
        named = "".join(f"<file>{file}</file>" for file in dict.fromkeys(files))
        told += (
            f"<observation><type>bugfix</type><title>Told {mark} {at}</title><subtitle>It works</subtitle>"
            f"<facts><fact>A fact of {mark}</fact></facts><narrative>So it was.</narrative>"
            f"<concepts><concept>gotcha</concept></concepts><files_read>{named}</files_read>"
            f"<files_modified>{named}</files_modified><events>{numbers[at]}</events></observation>"
        )
    if "<summary>" in asked:
        told += "<summary><request>A request</request><completed>All done</completed></summary>"
    return f'<memory round="{mark}">{told}</memory>'


def choose(box: Box, provider: str, endpoint: Endpoint | None, **settings: Any) -> None:
    """Set a machine to a provider at an endpoint."""
    address = {"anthropic": "{}", "openai": "{}/v1"}.get(provider, "")
    given = {"provider": provider, "model": "scripted", "api_key": "sk-test"} | settings
    if endpoint:
        given["base_url"] = address.format(endpoint.url)
    box.settings |= {f"BACKSTORY_{name.upper()}": str(value) for name, value in given.items()}


def replay(box: Box, session: str = "", settle: bool = True) -> None:
    """The recorded session, through the routes that hooks use."""
    for line in DEMO.read_text().splitlines():
        call = json.loads(line)
        payload = call["payload"] | {"cwd": str(box.project)} | ({"session_id": session} if session else {})
        box.client.post(f"/hooks/claude-code/{call['event']}", payload)
    if settle:
        box.settle()


@pytest.mark.parametrize("provider", MODELS)
def test_a_round_is_one_question(box: Box, provider: str) -> None:
    """A model is asked once a round, with all its events and the summary, and what it says is stored."""
    with Endpoint(answer) as endpoint:
        choose(box, provider, endpoint)
        box.start()
        replay(box)
    rounds = box.rows("SELECT DISTINCT prompt_number FROM events WHERE kind = 'stop'")
    assert len(endpoint.requests) == len(rounds) == 2
    seen = box.rows("SELECT * FROM observations ORDER BY id")
    assert seen and {row["provider"] for row in seen} == {provider}
    assert [row["completed"] for row in box.rows("SELECT * FROM session_summaries")] == ["All done"] * 2
    assert all(box.rows("SELECT 1 FROM observation_events WHERE observation_id = ?", row["id"]) for row in seen)
    assert {row["status"] for row in box.rows("SELECT status FROM events")} == {"done"}
