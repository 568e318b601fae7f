"""What an observation is shown with: what had been asked, and the part of the answer in which it was said."""

from __future__ import annotations

import pytest

from backstory.recall import around
from backstory.store.db import Store, Tx
from backstory.text import cut

ITEMS = "\n".join(f"{number}. **`part_{number}()`** - does it" for number in (1, 2, 3))
#: An answer whose list stands far from its beginning.
LONG = (
    f"## Summary\n\n{'The till was slow. ' * 60}\n\nI extracted three helpers from `pay()`:\n\n{ITEMS}\n\nTests pass."
)
AT = "2026-01-01T00:00:00.000Z"
SESSION = """
INSERT INTO sdk_sessions (id, content_session_id, agent, project, project_key, created_at, last_event_at)
VALUES (1, 's', 'claude-code', 'shop', 'k', '{at}', '{at}');
"""
ROUND = """
INSERT INTO user_prompts (session_id, prompt_number, prompt, created_at) VALUES (1, {number}, '{prompt}', '{at}');
INSERT INTO turns (session_id, number, prompt_number, role, text, at)
VALUES (1, {number} * 2, {number}, 'user', '{prompt}', '{at}'), (1, {number} * 2 + 1, {number}, 'assistant',
  {reply}, '{at}');
"""
ON_THE_WAY = """
INSERT INTO turns (session_id, number, prompt_number, role, text, at)
VALUES (1, 0, 1, 'assistant', 'Let me look.', '{at}');
"""


def say(tx: Tx, number: int, prompt: str, reply: str | None) -> None:
    told = f"'{reply}'" if reply is not None else "NULL"
    tx.script(ROUND.format(number=number, prompt=prompt, reply=told, at=AT))


def row(number: int, title: str) -> dict[str, object]:
    return {"session_id": 1, "prompt_number": number, "title": title}


@pytest.fixture
def talk(store: Store) -> Store:
    def fill(tx: Tx) -> None:
        tx.script(SESSION.format(at=AT))
        tx.script(ON_THE_WAY.format(at=AT))
        say(tx, 1, "Find out why the till is slow", "There was no index on `sale.day`. I added one.")
        say(tx, 2, "yes", LONG)
        say(tx, 3, "Say it again", None)

    store.write(fill)
    return store


def test_a_short_prompt_is_shown_by_the_one_before(talk: Store) -> None:
    assert talk.read(lambda tx: around.asked(tx, row(2, "x"))) == "Find out why the till is slow"


def test_an_item_of_a_list_is_shown_with_its_list(talk: Store) -> None:
    shown = talk.read(lambda tx: around.answered(tx, row(2, "`part_2()` - does it")))
    assert shown.startswith("…") and "I extracted three helpers from `pay()`: " in shown
    assert "`part_1()` - does it" in shown and "`part_3()` - does it" in shown and "**" not in shown
    assert len(shown) <= around.ANSWERED + 1


@pytest.mark.parametrize("title", ["the till is too slow for us", "", "…"])
def test_what_was_said_elsewhere_is_shown_with_the_beginning_of_the_answer(talk: Store, title: str) -> None:
    assert talk.read(lambda tx: around.answered(tx, row(1, title))) == "There was no index on `sale.day`. I added one."
    assert talk.read(lambda tx: around.answered(tx, row(2, title))).startswith("Summary The till was slow.")


@pytest.mark.parametrize("title", ["Extracted three helpers from `pay()`", "Steps: extracted three helpers from"])
def test_a_title_is_found_by_its_words(talk: Store, title: str) -> None:
    """A title has another first letter than the text, and may begin with its heading."""
    assert talk.read(lambda tx: around.answered(tx, row(2, title))).startswith("…")


def test_markup_is_left_out_and_code_is_not() -> None:
    text = "## Done\n\n**Now** `__init__.py` takes **`2**3`** of src/**, see **/*.py\n\n```py\nx = 1\n```"
    assert around.passage(text, "") == "Done Now `__init__.py` takes `2**3` of src/**, see **/*.py x = 1"


def test_an_answer_that_is_private_is_not_shown(talk: Store) -> None:
    assert talk.read(lambda tx: around.answered(tx, row(3, "x"))) == ""


def test_a_title_of_any_script_is_found() -> None:
    text = "まず調べました。\n" * 100 + "原因は索引がないことでした。\n" + "そのあと直しました。" * 60
    assert "原因は索引がないことでした" in around.passage(text, "原因は索引がないことでした。")
    assert around.passage("(" * 5000, "((((") == cut("(" * 5000, around.ANSWERED)
