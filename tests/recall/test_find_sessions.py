"""Sessions are found by what is remembered of them: how they began, what they are called, and who they are."""

from __future__ import annotations

import pytest

from backstory import ids
from backstory.model import ContentId, Report, Session
from backstory.project import Project
from backstory.recall.find_sessions import find
from backstory.recall.search import MemorySearch
from backstory.store import forget, sessions, titles, turns
from backstory.store.db import Store, Tx
from backstory.store.forget_rows import Forgotten
from backstory.store.index import chunks
from backstory.store.index.hits import Filter

FILLING = "The invoice of the warehouse was printed and the parcel left for the customer in time. " * 12


def talk(tx: Tx, name: str, *said: str, project: str = "shop") -> Session:
    """A conversation: prompt, reply, prompt and so on."""
    at = ids.now()
    start = Report("claude-code", "session_start", ContentId(name), ids.new_event_id(), at)
    session = sessions.get_or_create(tx, start, Project(project, project))
    for number, text in enumerate(said):
        session = sessions.get(tx, session.id)
        if number % 2:
            turns.add_reply(tx, session, session.prompt_counter, text, at)
        else:
            sessions.add_prompt(tx, session, text, at)
    chunks.extend(tx, sessions.get(tx, session.id))
    return sessions.get(tx, session.id)


def names(store: Store, words: str, where: Filter | None = None, tag: str = "") -> list[str]:
    rows = find(store, MemorySearch(store), words, where or Filter(), tag=tag)
    return [row["content_session_id"] for row in rows]


def test_a_session_is_remembered_by_how_it_began(store: Store) -> None:
    """Not by one sentence of a long one, whichever is newer."""

    def work(tx: Tx) -> None:
        talk(tx, "about", "Add a second discount code", "The cart takes both of them.")
        talk(tx, "other", "Print the invoices", "Done.")
        long = [FILLING, "The discount code is the second line. " + FILLING] * 12
        talk(tx, "long", "Print everything", *long)

    store.write(work)
    assert names(store, "the second discount code")[:2] == ["about", "long"]


def test_a_prompt_that_is_being_answered_is_left_out(store: Store) -> None:
    """For the agent that answers it; an earlier prompt of the same session is found."""

    def work(tx: Tx) -> None:
        for name, said in (("new", ["Where is the walrus"]), ("old", ["Where is the walrus", "Here.", "Thanks"])):
            sessions.move(tx, talk(tx, name, *said), "prompt")

    store.write(work)
    assert sorted(names(store, "walrus")) == ["new", "old"]
    assert names(store, "walrus", Filter(is_ended=True)) == ["old"]


@pytest.mark.parametrize(
    "words", ["{id}", "S{id}", "0a1b2c3d-99", "0a1b2c3d", "0a1b", "the great rename", " The Great Rename "]
)
def test_a_session_is_named_outright(store: Store, words: str) -> None:
    """By number, id or title. It comes first whatever else is found, and whatever the project."""

    def work(tx: Tx) -> Session:
        talk(tx, "c1", "the great rename of all the great things", "Great. Rename 0a1b.")
        session = talk(tx, "0a1b2c3d-99", "Fix the cart", "Done.", project="elsewhere")
        titles.rename(tx, session.id, "The great rename")
        return session

    session = store.write(work)
    rows = find(store, MemorySearch(store), words.format(id=session.id), Filter(project="shop"))
    assert (rows[0]["id"], rows[0]["exact"]) == (session.id, True)
    assert not any(row["exact"] for row in rows[1:])


def test_words_are_not_taken_for_an_id(store: Store) -> None:
    """`deadbeef` begins an id, and so may a word. An id has a digit."""

    def work(tx: Tx) -> None:
        talk(tx, "facade-1", "Fix the cart", "Done.")
        talk(tx, "c2", "Paint the facade", "Done.")

    store.write(work)
    assert names(store, "facade")[0] == "c2"
    assert names(store, "facade-1")[0] == "facade-1"


def test_a_title_and_tags_are_found_by_their_words(store: Store) -> None:
    """Most of them suffice. A title of the agent's counts like the first prompt, filters count for all of them."""

    def work(tx: Tx) -> None:
        outage = talk(tx, "outage", "Look at this", "Done.")
        titles.rename(tx, outage.id, "Payments outage in March")
        titles.tag(tx, outage.id, ["incident"], [])
        talk(tx, "payments", "Which payments are open in the table of payments?", "None.")
        elsewhere = talk(tx, "elsewhere", "Look at that", "Done.", project="other")
        titles.rename(tx, elsewhere.id, "Outage of other payments")

    store.write(work)
    assert names(store, "the payments outage", Filter(project="shop"))[0] == "outage"
    assert names(store, "payment outages", Filter(project="other")) == ["elsewhere"]
    assert names(store, "incidents")[0] == "outage"
    assert names(store, "payments", tag="incident") == ["outage"]
    assert names(store, "the march of the great penguins") == []


def test_nothing_is_found_without_a_match(store: Store) -> None:
    """No words, strange words, a session that was forgotten."""

    def work(tx: Tx) -> None:
        session = talk(tx, "c1", "Add a discount", "Done.")
        titles.rename(tx, session.id, "Discounts")
        forget.session(tx, session.id, Forgotten())

    store.write(work)
    for words in ("", "  ", "discount", "Discounts", "c1", "1", "🦄", '"', "*" * 9):
        assert names(store, words) == []
