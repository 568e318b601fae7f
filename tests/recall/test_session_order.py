"""Which sessions a new one is told of, on both engines: those of its branch, however old, and not mere questions."""

from __future__ import annotations

import pytest

from backstory.recall import context
from backstory.recall.relevance import SessionStart
from backstory.store.db import Store, Tx

SESSION = """INSERT INTO sdk_sessions
  (id, content_session_id, agent, project, project_key, git_branch, created_at, last_event_at)
VALUES ({id}, 's{id}', 'claude-code', 'shop', 'k/shop', '{branch}', '{at}', '{at}');
INSERT INTO user_prompts (id, session_id, prompt_number, prompt, created_at) VALUES ({id}, {id}, 1, '{prompt}', '{at}');
INSERT INTO observations (id, session_id, prompt_number, memory_session_id, project, project_key, type, title,
  files_modified, observed_json, provider, created_at)
VALUES ({id}, {id}, 1, 'm', 'shop', 'k/shop', 'change', 'Part {id} was rebuilt', '{files}', '{{}}', 'test', '{at}');
"""


def put(tx: Tx, id: int, branch: str, prompt: str, files: str = "[]") -> None:
    tx.script(SESSION.format(id=id, branch=branch, prompt=prompt, files=files, at=f"2026-01-{id:02}T00:00:00.000Z"))


def last_session(store: Store, branch: str | None = None) -> str:
    told = store.read(lambda tx: context.for_start(tx, "shop", "k/shop", 2000, start=SessionStart(branch)))
    return str(told).partition("Asked: ")[2].partition("\n")[0]


def test_the_last_session_of_a_branch_is_found_however_old(store: Store) -> None:
    def fill(tx: Tx) -> None:
        put(tx, 1, "fix/cart", "Round the totals of the cart once")
        for number in range(2, 25):
            put(tx, number, "main", f"Rebuild part number {number} of the shop")

    store.write(fill)
    assert last_session(store, "fix/cart") == "Round the totals of the cart once"
    assert last_session(store, "main") == last_session(store) == "Rebuild part number 24 of the shop"


@pytest.mark.parametrize("question", ["What did we do last time?", "Where did we leave off?", "catch me up, please"])
def test_a_session_that_only_asked_is_not_the_last_one(store: Store, question: str) -> None:
    """What it was told is known already. If it changed a file, it is a session like any other."""
    store.write(lambda tx: put(tx, 1, "main", "Round the totals of the cart once"))
    store.write(lambda tx: put(tx, 2, "main", question))
    assert last_session(store, "main") == "Round the totals of the cart once"
    store.write(lambda tx: put(tx, 3, "main", question, '["cart.py"]'))
    assert last_session(store, "main") == question


def test_an_observation_that_only_repeats_what_was_asked_is_not_told(store: Store) -> None:
    store.write(lambda tx: put(tx, 1, "main", "Part 1 was rebuilt last week, now paint it"))
    told = str(store.read(lambda tx: context.for_start(tx, "shop", "k/shop", 2000)))
    assert told.count("Part 1 was rebuilt") == 1
    store.write(lambda tx: tx.script("""UPDATE observations SET facts = '["It is blue."]' WHERE id = 1;"""))
    told = str(store.read(lambda tx: context.for_start(tx, "shop", "k/shop", 2000)))
    assert "Part 1 was rebuilt. It is blue" in told
