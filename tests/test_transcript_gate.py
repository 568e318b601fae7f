"""Entries of transcripts: what is private or secret goes, and what an agent needs to resume them stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.transcript_gate import PRIVATE, blank, clean

UUID = "11111111-2222-3333-4444-555555555555"
KEY = "sk-ant-api03-" + "aB3dE6gH9jK2lM5n" * 5 + "-AAAAAAAA"
SIGNATURE = "EqQBCkYIBxgCKkB" + "x9Zp+/" * 40 + "=="
HEAD = {
    "parentUuid": None,
    "isSidechain": False,
    "sessionId": UUID,
    "uuid": UUID,
    "timestamp": "2026-01-05T12:00:01.000Z",
}


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {**HEAD, "type": "user", "message": {"role": "user", "content": content}, **more}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    message = {"id": "msg_01AbCdEfGhIjKlMn", "role": "assistant", "content": list(blocks), "stop_reason": "tool_use"}
    return {**HEAD, "type": "assistant", "message": message | {"usage": {"input_tokens": 12}}}


def test_a_clean_entry_is_the_same() -> None:
    """Signatures, images and every other character included."""
    thinking = {"type": "thinking", "thinking": "Let me see.", "signature": SIGNATURE}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": SIGNATURE}}
    for entry in (assistant(thinking), user([image]), user("odd \ud800 and \0"), {"type": "mode", "mode": "normal"}):
        assert clean(entry) == entry


def test_secrets_are_redacted_and_ids_stay() -> None:
    use = {"type": "tool_use", "id": "toolu_01AbCdEfGh", "name": "Bash", "input": {"command": f"export K={KEY}"}}
    made = clean(assistant({"type": "text", "text": f"It is {KEY}."}, use))
    assert KEY not in json.dumps(made)
    assert {name: made[name] for name in HEAD} == HEAD
    assert made["message"]["content"][1]["id"] == "toolu_01AbCdEfGh"
    assert made["message"]["usage"] == {"input_tokens": 12}
    assert clean(made) == made


def test_signed_reasoning_with_a_secret_in_it_is_replaced() -> None:
    """A model refuses a changed text under the old signature."""
    thinking = {"type": "thinking", "thinking": f"The key is {KEY}.", "signature": SIGNATURE}
    made = clean(assistant(thinking, {"type": "text", "text": "Done."}))
    assert made["message"]["content"] == [{"type": "text", "text": "[redacted]"}, {"type": "text", "text": "Done."}]


def test_an_unclosed_tag_hides_the_rest_and_not_the_structure() -> None:
    """Texts, tools' keys and numbers go. What the agent finds the entry by stays, and no text is empty."""
    given = user(
        [{"type": "text", "text": "Say <private>the moon"}, {"type": "text", "text": "is a cheese"}],
        toolUseResult={"moon": 1234, "is": ["cheese"]},
    )
    made = clean(given)
    said = json.dumps(made)
    assert not [word for word in ("moon", "cheese", "1234") if word in said]
    assert [block["text"] for block in made["message"]["content"]] == ["Say ", PRIVATE]
    assert {name: made[name] for name in HEAD} == HEAD
    assert (made["type"], made["message"]["role"]) == ("user", "user")
    assert clean(made) == made


def test_a_private_round_keeps_its_shape_alone() -> None:
    use = {"type": "tool_use", "id": "toolu_01AbCdEfGh", "name": "Bash", "input": {"moon": "cheese"}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "moon"}}
    thinking = {"type": "thinking", "thinking": "moon", "signature": SIGNATURE}
    result = {"type": "tool_result", "tool_use_id": "toolu_01AbCdEfGh", "content": [{"type": "text", "text": "moon"}]}
    for entry in (assistant(use, thinking), user([result, image], toolUseResult={"moon": 5}), user("moon")):
        made = blank(entry)
        assert "moon" not in json.dumps(made)
        assert {name: made[name] for name in HEAD} == HEAD
        assert blank(made) == made
        assert clean(made) == made
    assert blank(assistant(use))["message"]["content"] == [{**use, "input": {}}]


def test_what_is_nested_too_deeply_is_dropped() -> None:
    deep: Any = f"<private>moon</private> {KEY}"
    for _ in range(300):
        deep = {"a": [deep]}
    made = clean(user("x", toolUseResult=deep, gitBranch=KEY, attachment=deep))
    assert made["uuid"] == UUID
    assert "moon" not in json.dumps(made)
    assert KEY not in json.dumps(made)


@pytest.mark.parametrize("place", ["uuid", "type", "sessionId", "cwd", "gitBranch", "moon"])
def test_no_field_is_beyond_the_gate(place: str) -> None:
    """An id that looks like a secret is no id that an agent gives."""
    for value in (KEY, "<private>moonlight</private>", "\\u003cprivate>moonlight\\u003c/private>"):
        for made in (clean(user("x", **{place: value})), blank(user("x", **{place: value}))):
            assert KEY not in json.dumps(made)
            assert "moonlight" not in json.dumps(made)


TEXTS = st.sampled_from(
    ["a", "<private>", "</private>", KEY, "password=hunter2hunter2", "<b>", "", " ", "&lt;private&gt;"]
)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.sampled_from(["id", "name"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "thinking", "tool_use"]), "text": TEXTS, "input": VALUES}
        )
    ),
    VALUES,
)
def test_cleaning_twice_is_cleaning_once(blocks: list[dict[str, Any]], result: Any) -> None:
    made = clean(user(blocks, toolUseResult=result))
    assert clean(made) == made
    assert KEY not in json.dumps(made)
    assert {name: made[name] for name in HEAD} == HEAD
    assert blank(blank(made)) == blank(made)
