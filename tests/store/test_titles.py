"""Titles and tags of sessions, and what becomes of them when something is forgotten."""

from __future__ import annotations

from backstory import ids
from backstory.exchange.load import Load
from backstory.model import ContentId, Report, Session
from backstory.project import Project
from backstory.recall import session_rows
from backstory.store import forget, forgotten, queries, sessions, table_rows, titles
from backstory.store.db import LAST, Store, Tx
from backstory.store.forget_rows import Forgotten

SHOP = Project("shop", "github.com/dev/shop")
KEY = b"key"


def make(tx: Tx, name: str, prompt: str = "Add a discount to the cart", at: str | None = None) -> Session:
    """A session with a prompt."""
    start = Report("claude-code", "session_start", ContentId(name), ids.new_event_id(), at or ids.now())
    session = sessions.get_or_create(tx, start, SHOP)
    sessions.add_prompt(tx, session, prompt, at or ids.now())
    return sessions.get(tx, session.id)


def title(tx: Tx, session: Session) -> str | None:
    return sessions.get(tx, session.id).title


def test_the_users_title_comes_before_the_agents(store: Store) -> None:
    """Whichever comes last. Without the user's, the agent's is back."""

    def work(tx: Tx) -> None:
        session = make(tx, "c1")
        titles.put_agents(tx, session, "A guess", "agent")
        assert title(tx, session) == "A guess"
        titles.put_agents(tx, session, "Discounts", "custom")
        titles.put_agents(tx, session, "Another guess", "agent")
        assert title(tx, session) == "Discounts"
        titles.rename(tx, session.id, "  My\ndiscounts  ")
        assert title(tx, session) == "My discounts"
        titles.put_agents(tx, session, "Later", "custom")
        assert title(tx, session) == "My discounts"
        titles.rename(tx, session.id, "")
        assert title(tx, session) == "Later"

    store.write(work)


def test_a_title_passes_the_gate(store: Store) -> None:
    """Like every text."""

    def work(tx: Tx) -> None:
        session = make(tx, "c1")
        titles.rename(tx, session.id, "before <private>hidden</private> after")
        titles.tag(tx, session.id, ["<private>hidden</private>", "key ghp_" + "a1B2" * 9], [])
        stored = f"{title(tx, session)} {titles.tags(tx, [session.id])}"
        assert "before" in stored
        assert "hidden" not in stored
        assert "a1B2a1B2" not in stored

    store.write(work)


def test_an_agents_own_title_is_not_kept_beside_a_private_prompt(store: Store) -> None:
    """The agent read that prompt, too, so its title may tell of it. A title of the user's says what the user wants."""

    def work(tx: Tx) -> None:
        session = make(tx, "c1", "")
        titles.put_agents(tx, session, "The secret plan", "agent")
        assert title(tx, session) is None
        titles.put_agents(tx, session, "Plans", "custom")
        assert title(tx, session) == "Plans"

    store.write(work)


def test_i16_forgetting_takes_titles_and_tags_along(store: Store) -> None:
    """A session's with the session; the agent's own with anything of it; any that has the words."""

    def work(tx: Tx) -> None:
        whole, part, words, kept = (make(tx, name) for name in ("whole", "part", "words", "kept"))
        for session in (whole, part, words, kept):
            titles.put_agents(tx, session, f"guess {session.id}", "agent")
            titles.rename(tx, session.id, f"named {session.id}")
        titles.tag(tx, whole.id, ["release"], [])
        titles.tag(tx, words.id, ["Unicorn"], [])
        gone = Forgotten(key=KEY)
        forget.session(tx, whole.id, gone)
        (prompt,) = tx.all("prompts_list", project="", session_id=part.id, before=LAST, limit=9)
        forget.prompt(tx, prompt["id"], gone)
        forget.matching(tx, "unicorn", "", gone)
        assert titles.of_session(tx, whole.id) == [] == titles.of_session(tx, words.id)
        assert titles.tags(tx, [whole.id, words.id]) == {}
        assert [row["title"] for row in titles.of_session(tx, part.id)] == [f"named {part.id}"]
        assert title(tx, part) == f"named {part.id}"
        assert title(tx, whole) is None is title(tx, words)
        assert title(tx, kept) == f"named {kept.id}"
        assert forgotten.has(tx, KEY, f"guess {part.id}", ids.now())
        titles.put_agents(tx, sessions.get(tx, part.id), "guess again", "agent")
        assert len(titles.of_session(tx, part.id)) == 1

    store.write(work)


def test_titles_and_tags_are_exported_and_imported(store: Store) -> None:
    """Into another session of the same name, whose title they become."""
    tables = queries.owned()

    def rows(tx: Tx) -> list[tuple[str, dict[str, object]]]:
        session = make(tx, "c1")
        titles.put_agents(tx, session, "A guess", "agent")
        titles.tag(tx, session.id, ["release", "cart"], [])
        names = ("sdk_sessions", "session_titles", "session_tags")
        found = [(n, dict(row)) for n in names for row in table_rows.page(tx, tables[n], tables[n].first, 99)]
        titles.remove_all(tx, session.id)
        return found

    exported = store.write(rows)

    def load(tx: Tx) -> Session:
        assert Load("file").rows(tx, exported).added == 3
        session = sessions.by_content_id(tx, "claude-code", ContentId("c1"))
        assert session
        return session

    session = store.write(load)
    assert session.title == "A guess"
    assert store.read(lambda tx: titles.tags(tx, [session.id])) == {session.id: ["cart", "release"]}


def test_sessions_are_listed_by_their_last_use(store: Store) -> None:
    """An import has new ids and old times. A page begins where the one before ended, and every title is filled in."""
    times = {"old": "2026-01-05T10:00:00.000Z", "new": "2026-03-05T10:00:00.000Z", "mid": "2026-02-05T10:00:00.000Z"}

    def work(tx: Tx) -> None:
        made = {name: make(tx, name, f"Please add the {name} discount", at) for name, at in times.items()}
        titles.tag(tx, made["mid"].id, ["release"], [])
        first = session_rows.with_titles(tx, sessions.listed(tx, "", LAST, 2))
        assert [row["title"] for row in first] == ["Add the new discount", "Add the mid discount"]
        rest = sessions.listed(tx, "shop", first[-1]["id"], 2)
        assert [row["content_session_id"] for row in rest] == ["old"]
        tagged = sessions.listed(tx, "", LAST, 9, tag="release")
        assert [row["content_session_id"] for row in tagged] == ["mid"]
        assert sessions.listed(tx, "", LAST, 9, tag="other") == []

    store.write(work)


def test_a_session_shows_where_it_comes_from_and_what_it_led_to(store: Store) -> None:
    """Forks and clears, from both sides. One that was forgotten is not named."""

    def work(tx: Tx) -> None:
        parent = make(tx, "parent", "Round prices once")
        children = {}
        for source in ("fork", "clear", "startup"):
            start = Report(
                "claude-code", "session_start", ContentId(source), source, ids.now(), payload={"source": source}
            )
            child = sessions.get_or_create(tx, start, SHOP)
            tx.run("session_set_parent", id=child.id, parent_id=parent.id)
            sessions.add_prompt(tx, child, f"Try the {source} way of rounding", ids.now())
            children[source] = sessions.get(tx, child.id)
        relations = {link["relation"]: link["title"] for link in session_rows.links(tx, parent)}
        assert relations == {
            "forked as": "Try the fork way of rounding",
            "cleared to": "Try the clear way of rounding",
            "continued in": "Try the startup way of rounding",
        }
        (back,) = session_rows.links(tx, children["fork"])
        assert (back["relation"], back["id"], back["title"]) == ("forked from", parent.id, "Round prices once")
        forget.session(tx, parent.id, Forgotten())
        assert session_rows.links(tx, children["fork"]) == []

    store.write(work)
