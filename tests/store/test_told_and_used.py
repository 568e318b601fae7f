"""What sessions were told and what they used, on both engines: stored, shown, forgotten, and imported."""

from __future__ import annotations

from typing import Any

from test_ledger import observe
from test_queue import put
from test_titles import KEY, make

from backstory.exchange.load import Load
from backstory.model import ClaimMark, Observation, Reply, Session
from backstory.observe import prices
from backstory.recall import activity
from backstory.store import contexts, forget, hidden, queries, sessions, table_rows, usage
from backstory.store.contexts import DeliveredContext
from backstory.store.db import Store, Tx
from backstory.store.forget_rows import Forgotten
from backstory.worker import session_usage


def learned(store: Store) -> tuple[Session, list[int]]:
    """A session that was told the three observations of another one."""
    put(store, "a", kind="prompt")
    put(store, "a", kind="stop")
    about = [("change", f"Change {number}", f"It is number {number}.") for number in range(3)]
    made = tuple(Observation(kind, title, narrative=text, mark=ClaimMark.EARLIER) for kind, title, text in about)
    observe(store, Reply(made))
    numbers = [row["id"] for row in store.read(lambda tx: tx.all("observations_of_whole_session", session_id=1))]
    session = store.write(lambda tx: make(tx, "told"))
    store.write(lambda tx: contexts.add(tx, DeliveredContext(session.id, "startup", 120, (*numbers, numbers[0]))))
    return session, numbers


def told(store: Store, session: Session) -> list[dict[str, Any]]:
    return store.read(lambda tx: contexts.of_session(tx, session.id))


def test_what_a_session_was_told_is_what_stands_of_it(store: Store) -> None:
    """What is hidden or forgotten is only counted. What the worker gave twice in one context is one."""
    session, numbers = learned(store)
    (one,) = told(store, session)
    assert (one["cause"], one["tokens"], one["gone"]) == ("startup", 120, 0)
    assert [each["id"] for each in one["observations"]] == numbers
    assert one["observations"][1] == {"id": numbers[1], "type": "change", "mark": "earlier", "title": "Change 1"}
    store.write(lambda tx: hidden.hide_observation(tx, numbers[0]))
    (one,) = told(store, session)
    assert ([each["id"] for each in one["observations"]], one["gone"]) == (numbers[1:], 1)
    store.write(lambda tx: forget.observation(tx, numbers[1], Forgotten(key=KEY)))
    (one,) = told(store, session)
    assert ([each["id"] for each in one["observations"]], one["gone"], one["tokens"]) == (numbers[2:], 2, 120)
    store.write(lambda tx: hidden.hide_session(tx, 1))
    assert told(store, session)[0]["observations"] == []
    store.write(lambda tx: hidden.show_session(tx, 1))
    assert len(told(store, session)[0]["observations"]) == 1
    # An observation that was forgotten while the answer was on its way.
    late = DeliveredContext(session.id, "prompt", 9, (numbers[1], 10**6, numbers[2]))
    store.write(lambda tx: contexts.add(tx, late))
    assert [(each["gone"], len(each["observations"])) for each in told(store, session)] == [(2, 1), (2, 1)]


def test_a_forgotten_session_was_told_nothing_and_used_nothing(store: Store) -> None:
    """Nor is anything stored of it afterwards."""
    session, _ = learned(store)
    use(store, session, "u1", output_tokens=7)
    store.write(lambda tx: forget.session(tx, session.id, Forgotten(key=KEY)))
    again = store.read(lambda tx: sessions.get(tx, session.id))
    store.write(lambda tx: contexts.add(tx, DeliveredContext(session.id, "prompt", 5, ())))
    assert told(store, again) == []
    assert store.read(lambda tx: session_usage.of_session(tx, session.id)) is None
    assert [rows(store, name) for name in ("contexts", "context_observations", "session_usage")] == [[], [], []]


def rows(store: Store, name: str) -> list[dict[str, Any]]:
    table = queries.owned()[name]
    return store.read(lambda tx: table_rows.page(tx, table, table.first, 99))


def test_days_count_what_was_delivered_and_nothing_else(store: Store) -> None:
    """A session that was not told anything has saved nothing, however much a session would be told now."""
    session, _ = learned(store)
    (today,) = store.read(lambda tx: activity.days(tx, "", 1))
    assert (today["contexts"], today["tokens_told_estimate"], today["sessions"]) == (1, 120, 1)
    for number in range(5):
        store.write(lambda tx, n=number: make(tx, f"imported{n}"))  # type: ignore[misc]
    store.write(lambda tx: contexts.add(tx, DeliveredContext(session.id, "prompt", 30, ())))
    (today,) = store.read(lambda tx: activity.days(tx, "", 1))
    assert (today["contexts"], today["tokens_told_estimate"], today["sessions"]) == (2, 150, 6)
    assert store.read(lambda tx: activity.days(tx, "elsewhere", 1))[0]["contexts"] == 0


def test_both_go_into_an_export_and_come_back(store: Store) -> None:
    """Under the new ids of their session and of the observations. Nothing comes back that was forgotten here."""
    session, numbers = learned(store)
    use(store, session, "u1", output_tokens=7)
    names = ("sdk_sessions", "observations", "contexts", "context_observations", "session_usage")
    stored = [(name, row) for name in names for row in rows(store, name)]
    before = told(store, session)
    store.write(lambda tx: forget.observation(tx, numbers[0], Forgotten(key=KEY)))
    for number in range(2):
        loaded = store.write(lambda tx, n=number: Load(f"import{n}", KEY).rows(tx, stored))  # type: ignore[misc]
        assert (loaded.added, loaded.refused) == (0, {})
    assert [each["id"] for each in told(store, session)[0]["observations"]] == numbers[1:]
    elsewhere = [(name, _elsewhere(name, row)) for name, row in stored]
    loaded = store.write(lambda tx: Load("elsewhere", KEY).rows(tx, elsewhere))
    assert loaded.refused == {}
    copy = store.read(lambda tx: sessions.by_prefix(tx, "copy-told"))
    assert copy
    (one,) = told(store, copy)
    assert [each["title"] for each in one["observations"]] == [each["title"] for each in before[0]["observations"]][1:]
    assert {each["id"] for each in one["observations"]}.isdisjoint(numbers)
    found = store.read(lambda tx: session_usage.of_session(tx, copy.id))
    assert found and found.output_tokens == 7
    store.write(lambda tx: forget.session(tx, copy.id, Forgotten(key=KEY)))
    store.write(lambda tx: Load("again", KEY).rows(tx, elsewhere))
    assert told(store, copy) == []


def _elsewhere(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row as another machine would have it."""
    if table != "sdk_sessions":
        return row
    return row | {"content_session_id": f"copy-{row['content_session_id']}", "memory_session_id": None}


def use(store: Store, session: Session, part: str, model: str = "claude-opus-5", **numbers: int | None) -> None:
    payload = {"part": part, "used": [{"model": model} | numbers]}
    store.write(lambda tx: usage.put(tx, session, payload))


def shown(store: Store, session: Session) -> session_usage.SessionUsage:
    found = store.read(lambda tx: session_usage.of_session(tx, session.id))
    assert found
    return found


def test_a_part_that_is_read_again_replaces_itself(store: Store) -> None:
    """It has grown. One that was cut off, or that another session began with, counts nothing."""
    session = store.write(lambda tx: make(tx, "a"))
    assert store.read(lambda tx: session_usage.of_session(tx, session.id)) is None
    use(store, session, "u1", input_tokens=10, cached_tokens=500, output_tokens=5)
    use(store, session, "u1", input_tokens=12, cached_tokens=900, output_tokens=9)
    use(store, session, "u1", input_tokens=10, cached_tokens=500, output_tokens=5)
    use(store, session, "u2", input_tokens=1, cache_5m_tokens=100, cache_1h_tokens=10, output_tokens=1)
    use(store, session, "u2", model="claude-haiku-5-5", input_tokens=1000)
    found = shown(store, session)
    assert (found.input_tokens, found.cached_tokens, found.output_tokens) == (12 + 900 + 1 + 110 + 1000, 900, 10)
    assert [one.model for one in found.models] == ["claude-opus-5", "claude-haiku-5-5"]
    # 13 tokens at 5 dollars a million, 900 from the cache at 0.5, written ones at 1.25 and 2 times 5, 10 at 25.
    assert found.models[0].cost_micros == round(13 * 5 + 900 * 0.5 + 100 * 6.25 + 10 * 10 + 10 * 25)
    assert (found.cost_micros, found.cost_source) == ((found.models[0].cost_micros or 0) + 100, "estimate")
    fork = store.write(lambda tx: make(tx, "fork"))
    use(store, fork, "u1", input_tokens=12, cached_tokens=900, output_tokens=9)
    assert store.read(lambda tx: session_usage.of_session(tx, fork.id)) is None


def test_the_cost_is_the_agents_count_if_that_is_not_behind(store: Store) -> None:
    """It is cumulative. That of a fork includes its parent's. Without a price nothing is invented."""
    session = store.write(lambda tx: make(tx, "a"))
    use(store, session, "u1", output_tokens=1000)
    assert (shown(store, session).cost_micros, shown(store, session).cost_source) == (25_000, "estimate")
    use(store, session, "", "", cost_micros=26_000)
    assert (shown(store, session).cost_micros, shown(store, session).cost_source) == (26_000, "agent")
    use(store, session, "", "", cost_micros=1_000)
    use(store, session, "u2", output_tokens=1000)
    assert (shown(store, session).cost_micros, shown(store, session).cost_source) == (50_000, "estimate")
    use(store, session, "u3", model="secret-model", output_tokens=10)
    found = shown(store, session)
    assert (found.cost_micros, found.models_without_price) == (50_000, ["secret-model"])
    other = store.write(lambda tx: make(tx, "b"))
    use(store, other, "o1", model="secret-model", output_tokens=10)
    assert (shown(store, other).cost_micros, shown(store, other).cost_source) == (None, "")
    use(store, other, "o2", model="secret-model", output_tokens=10, cost_micros=7)
    assert shown(store, other).cost_micros is None  # one of two messages does not say it
    child = store.write(lambda tx: _child(tx, session))
    use(store, child, "c1", output_tokens=10)
    use(store, child, "", "", cost_micros=10**6)
    assert (shown(store, child).cost_micros, shown(store, child).cost_source) == (250, "estimate")


def _child(tx: Tx, parent: Session) -> Session:
    child = make(tx, "child")
    tx.script(f"UPDATE sdk_sessions SET parent_id = {parent.id} WHERE id = {child.id};")  # noqa: S608 - numbers
    return sessions.get(tx, child.id)


def test_a_damaged_report_counts_nothing(store: Store) -> None:
    session = store.write(lambda tx: make(tx, "a"))
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"part": 5, "used": [{"model": "m", "output_tokens": 5}]},
        {"part": "p", "used": {"model": "m"}},
        {"part": "p", "used": [5, {"model": 5}, {"output_tokens": 5}]},
    )
    for payload in wrong:
        store.write(lambda tx, p=payload: usage.put(tx, session, p))  # type: ignore[misc]
    assert store.read(lambda tx: session_usage.of_session(tx, session.id)) is None
    use(store, session, "x" * 5000, "m" * 5000, output_tokens=2**60, input_tokens=-1, cached_tokens=3)
    (one,) = shown(store, session).models
    assert (len(one.model), one.input_tokens, one.output_tokens) == (200, 3, 0)
    assert prices.price("claude-opus-5") == (5.0, 0.5, 25.0)
