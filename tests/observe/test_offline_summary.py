"""The summary says what was asked, done and learned, and what is left, from all the round's events."""

from __future__ import annotations

import asyncio

from acted import a_round, edited, later, ran, read, stopped, told, used

from backstory.model import Summary
from backstory.observe.offline import observe, tell

FAILING = "FAILED tests/test_cart.py::test_total - AssertionError: assert 2 == 3\n1 failed, 4 passed in 0.1s"


def summary_of(reply_summary: Summary | None) -> Summary:
    assert reply_summary is not None
    return reply_summary


def test_no_summary_before_the_stop() -> None:
    """A round that goes on has none."""
    assert told("go", edited("a.py", "x = 1", "x = 2")).summary is None


def test_the_parts_of_a_summary() -> None:
    """Request, files, checks, commits, root cause and open points each stand where they belong."""
    message = (
        "Fixed the totals in the cart.\n\nThe root cause was that `total` skipped the last item.\n\n"
        "## Next steps\n\n- Add a test for empty carts\n"
    )
    commit = "[main 1234abc] Fix totals\n 1 file changed, 1 insertion(+)\n"
    summary = summary_of(
        told(
            "Hey, please fix the cart's totals. They are off by one item.",
            read("src/prices.py", "x = 1\n"),
            edited("src/cart.py", "def total():\n    return 2", "def total():\n    return 3"),
            ran("pytest -q", "5 passed in 0.1s"),
            ran("git commit -am 'Fix totals'", commit),
            stopped(message),
        ).summary
    )
    assert summary.request == "fix the cart's totals. They are off by one item."
    assert "src/prices.py" in summary.investigated
    assert "The root cause was that `total` skipped the last item." in summary.learned
    assert "Fixed the totals in the cart." in summary.completed
    assert "src/cart.py: changed `total`" in summary.completed
    assert "pytest: 5 passed" in summary.completed
    assert "Commit 1234abc on main: Fix totals" in summary.completed
    assert summary.next_steps == "Add a test for empty carts."
    assert summary.notes == ""


def test_what_is_open_is_said() -> None:
    """A test that still fails and a question without an answer are the next steps; uncommitted files are noted."""
    edit = edited("src/cart.py", "def total():\n    return 2", "def total():\n    return 4")
    message = "I changed the total. Should I also change the tax?"
    summary = summary_of(told("fix totals", edit, ran("pytest -q", FAILING, 1), stopped(message)).summary)
    assert summary.next_steps.startswith("Still failing: `test_total`: AssertionError: assert 2 == 3.")
    assert summary.next_steps.endswith("Should I also change the tax?")
    assert "Not committed in this round: src/cart.py" in summary.notes


def test_an_untested_change_is_noted() -> None:
    """Code that nothing was run on afterwards is a thing to know."""
    summary = summary_of(
        told("tune", ran("pytest", "5 passed in 0.1s"), edited("a.py", "x = 1", "x = 2"), stopped("Ok.")).summary
    )
    assert "No test run was seen after the last edit" in summary.notes


def test_unfinished_todos_are_next_steps() -> None:
    """What the agent had set itself and not done is named, from lists and from single tasks."""
    todos = [{"content": "Fix total", "status": "completed"}, {"content": "Fix tax", "status": "pending"}]
    tasks = [
        used("TaskCreate", {"subject": "Fix total"}, {"task": {"id": "1", "subject": "Fix total"}}),
        used("TaskCreate", {"subject": "Fix tax"}, {"task": {"id": "2", "subject": "Fix tax"}}),
        used("TaskUpdate", {"taskId": "1", "status": "completed"}, {"success": True}),
    ]
    assert (
        summary_of(told("go", used("TodoWrite", {"todos": todos}), stopped("Ok.")).summary).next_steps
        == "Not done: Fix tax."
    )
    assert summary_of(told("go", *tasks, stopped("Ok.")).summary).next_steps == "Not done: Fix tax."


def test_nothing_open_is_empty() -> None:
    """No invented next steps."""
    summary = summary_of(told("what is it?", stopped("It is a shop that sells carts to horses.")).summary)
    assert summary.next_steps == ""
    assert summary.completed == ""
    assert "It is a shop that sells carts to horses." in summary.learned


def test_the_summary_covers_events_observed_before() -> None:
    """What an earlier batch told as observations is still part of the round."""
    first = a_round("tune both", edited("a.py", "x = 1", "x = 2"))
    reply = tell(later(first, edited("b.py", "y = 1", "y = 2"), stopped("Tuned.")))
    summary = summary_of(reply.summary)
    assert "a.py" in summary.completed
    assert "b.py" in summary.completed
    assert all("a.py" not in one.files_modified for one in reply.observations)


def test_the_request_comes_from_the_stop_if_the_prompt_is_unknown() -> None:
    """And reminders in it are not the user's words."""
    user = "<system-reminder>be brief</system-reminder>Show me the cart"
    assert summary_of(told("", stopped("Here it is, in `cart.py`.", user)).summary).request == "Show me the cart"


def test_pasted_code_is_not_the_request() -> None:
    """The question around it is."""
    prompt = "```\nTypeError: x\n```\n+  if (a) { return foo(b, c); }\n\nwhy is this called twice?"
    assert summary_of(told(prompt, stopped("Because of the retry.")).summary).request == "why is this called twice?"


def test_other_scripts_are_kept_whole() -> None:
    """Chinese and Japanese sentences are split and told like others."""
    message = "购物车的总价已经修复。根本原因是最后一件商品被跳过了。\n\n还需要为空购物车添加测试。"
    summary = summary_of(told("修复购物车的总价", edited("a.py", "x = 1", "x = 2"), stopped(message)).summary)
    assert summary.request == "修复购物车的总价"
    assert "根本原因是最后一件商品被跳过了。" in summary.learned
    assert summary.next_steps == "还需要为空购物车添加测试。"


def test_observe_is_what_a_provider_is() -> None:
    """One async function from a round to a reply, without a conversation of its own."""
    reply = asyncio.run(observe(a_round("tune", edited("a.py", "x = 1", "x = 2"), stopped("Ok."))))
    assert reply.memory_id is None
    assert reply.summary is not None
    assert len(reply.observations) == 1


def test_markdown_leaves_no_marks() -> None:
    """Links keep their words, emphasis and headings go, code blocks are left out."""
    message = (
        "## Result\n\nSee [the *cart* page](https://a.org/cart) for **all** totals of the shop.\n\n```py\nx = 1\n```\n"
    )
    learned = summary_of(told("where?", stopped(message)).summary).learned
    assert learned == "See the cart page for all totals of the shop."


def test_files_that_were_only_read_come_first() -> None:
    """What was looked at and left alone is not told elsewhere."""
    change = edited("b.py", "x = 1", "x = 2")
    summary = summary_of(told("tune", read("b.py", "x = 1"), read("a.py", "y = 1"), change, stopped("Ok.")).summary)
    assert summary.investigated == "Read a.py, b.py."


def test_labels_in_a_message_are_understood() -> None:
    """Cause, decision and next step each go where they belong, once, and the next step whole."""
    message = (
        "It works now.\n\n**Cause:** `apply` added the amount on every call.\n\n"
        "**Decision:** the cart keeps a set of codes rather than a flag, because codes can be combined.\n\n"
        "**Next step:** the page shows the old total, because it is cached. Clear the entry in `views.py`."
    )
    reply = told(
        "Fix the total.", edited("cart.py", "def apply():\n    a()", "def apply():\n    b()"), stopped(message)
    )
    summary = summary_of(reply.summary)
    assert summary.next_steps == "the page shows the old total, because it is cached. Clear the entry in `views.py`."
    assert "Cause: `apply` added the amount" in summary.learned
    assert "cached" not in summary.learned
    (decision,) = [o for o in reply.observations if o.type == "decision"]
    assert decision.title.startswith("The cart keeps a set of codes")
