"""The offline observer: what is said is kept, what is overturned is not, and tool events are evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from acted import HOME, Talk, a_round, edited, event, failed, later, ran, read, stopped, told, used, wrote

from backstory.labels import PRINTED
from backstory.model import ClaimMark, Event, Observation, Reply, Turn
from backstory.observe.offline import _with_facts, tell
from backstory.observe.offline.select import ScoredStatement
from backstory.observe.offline.statements import Statement, statements_of
from backstory.observe.offline.titles import type_of
from backstory.text import words_of


def everything(reply: Reply) -> str:
    """All that a reply keeps."""
    parts = [text for one in reply.observations for text in (one.title, one.narrative, *one.facts)]
    if summary := reply.summary:
        parts += [summary.request, summary.learned, summary.completed, summary.next_steps, summary.notes]
    return "\n".join(parts)


CLOSING = {
    "Next steps:\n- Add retries to the fetcher": "Add retries to the fetcher",
    "## Next steps\n\n- Add retries to the fetcher": "Add retries to the fetcher",
    "What remains:\n- Retries in the fetcher module": "Retries in the fetcher module",
    "**Remaining work:**\n- Retries in the fetcher module": "Retries in the fetcher module",
    "Still to do: retries in the fetcher module": "retries in the fetcher module",
    "I have not implemented retries yet.": "not implemented retries",
    "Important: never set B_TIMEOUT above 60, the proxy cuts the connection.": "never set B_TIMEOUT above 60",
    "Note that the proxy cuts connections after 60 seconds.": "the proxy cuts connections",
    "Note: pytest has to be run from the project's root": "pytest has to be run",
    "We agreed to use urllib, not requests, because nothing may be installed.": "use urllib, not requests",
    "Once you set STAGING_KEY I can run the integration tests.": "set STAGING_KEY",
    "Entschieden: Wir nehmen urllib statt requests.": "urllib statt requests",
}


@pytest.mark.parametrize("reply", CLOSING)
def test_what_a_closing_reply_leaves_is_kept(reply: str) -> None:
    """However it is written."""
    done = "Added the fetcher module in `fetch.py`, which reads the feed once an hour."
    kept = everything(told("Start the fetcher module.", wrote("fetch.py", "x = 1\n"), stopped(f"{done}\n\n{reply}")))
    assert CLOSING[reply] in kept


def test_a_request_is_kept_whole() -> None:
    prompt = "Start the fetcher module. Use urllib. Never touch a.py. Ask before you add a dependency."
    reply = told(prompt, wrote("fetch.py", "x = 1\n"), stopped("Added `fetch.py`."))
    assert reply.summary and reply.summary.request == prompt


def test_the_sentence_after_a_title_is_its_first_fact() -> None:
    """It often has the reason, in plain words that rank low by themselves."""
    message = (
        "The root cause was that `load` opened the file twice. "
        "We decided to keep `parse_date` in `dates.py` instead of `fromisoformat`, because old rows have no zone. "
        "It was slower by a third in the spring. "
        "The lock in `store.py` must be taken before the read, never after it."
    )
    reply = told("Which parser?", edited("dates.py", "a", "b"), stopped(message))
    decided = next(one for one in reply.observations if one.title.startswith("We decided"))
    assert decided.facts == ("It was slower by a third in the spring.",)


def test_facts_of_other_rounds_are_good_ones_and_the_near_ones_come_first() -> None:
    def said(text: str, round: int, turn: int, score: float = 0.0) -> ScoredStatement:
        return ScoredStatement(Statement(text, "last", round, turn, 0, 1), text, score, False, words_of(text))

    title = said("The cart store reads the orders once", 4, 40, 1.0)
    printer = said("The label printer needs a driver from the vendor", 4, 41)
    reads = said("The orders of a closed shop are not read by the cart store", 4, 42)
    after = said("Three orders were read twice by the old till", 5, 50)
    far = said("The cart store opens once for every shop", 6, 60)
    poor = said("The cart store has some orders of the week", 7, 70, -3.0)
    facts = _with_facts([title], [title, printer, reads, after, far, poor])[title.title]
    assert [fact.title for fact in facts] == [reads.title, far.title, after.title, printer.title]


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (
            "Die Ursache war, dass `parse_date` die Zeitzone verwirft; jetzt bleibt sie erhalten.",
            "die Zeitzone verwirft",
        ),
        ("La causa era que `parse_date` descarta la zona horaria; ahora se conserva.", "descarta la zona horaria"),
        ("原因は `parse_date` がタイムゾーンを捨てていたことです。修正しました。", "タイムゾーンを捨てていた"),
        ("原因是 `parse_date` 丢弃了时区,现在已经保留时区信息。", "丢弃了时区"),
    ],
)
def test_other_languages_are_kept(message: str, kept: str) -> None:
    reply = told("?", edited("dates.py", "a", "b"), stopped(message))
    assert any(kept in f"{one.title} {one.narrative}" for one in reply.observations)


def test_an_answered_question_is_not_open() -> None:
    talk = Talk()
    talk.round("Look at the cache.", stopped("The cache grows without a bound. Should I limit it to 100 entries?"))
    reply = talk.round("yes, and make it a setting", edited("cache.py", "a", "b"), stopped("Limited the cache to 100."))
    assert "Should I" not in everything(reply)
    assert all("Should I" not in summary.next_steps for summary in talk.summaries.values())


def test_what_the_user_disproves_is_withdrawn() -> None:
    talk = Talk()
    talk.round(
        "Why do tests fail?", stopped("The root cause is the stale cache in `store.py`, which is never cleared.")
    )
    assert any("stale cache" in one.title for one in talk.standing.values())
    talk.round(
        "no, the cache is off in tests", read("conf.py", "x"), stopped("The tests fail because `TZ` is not set.")
    )
    assert not any("stale cache" in f"{one.title} {one.facts}" for one in talk.standing.values())
    assert "stale cache" not in f"{talk.summaries[1].learned} {talk.summaries[1].completed}"


def test_work_that_was_removed_again_is_not_told() -> None:
    talk = Talk()
    made = "Added `agent_type_test.go` with two tests for the flow of the agent type into the metadata."
    talk.round("Add tests.", wrote("agent_type_test.go", "x"), stopped(made))
    gone = "Removed `agent_type_test.go`, because `metadata_test.go` covers the agent type already."
    talk.round("these belong into the existing tests", ran("rm agent_type_test.go"), stopped(gone))
    assert not any(one.title.startswith("Added `agent_type_test.go`") for one in talk.standing.values())


def test_a_failure_on_the_way_is_not_told_and_one_at_the_end_is_open() -> None:
    failed = ran("pytest", "FAILED tests/test_cart.py::test_total - assert 1 == 2\n1 failed, 2 passed in 0.1s", 1)
    reply = told("Fix the total.", failed, stopped("The total is still wrong for empty carts."))
    assert (
        reply.summary
        and "pytest fails (1 failed, 2 passed: tests/test_cart.py::test_total)" in reply.summary.next_steps
    )
    fixed = (failed, edited("cart.py", "a", "b"), ran("pytest", "3 passed in 0.1s"))
    reply = told("Fix the total.", *fixed, stopped("Fixed the total: `Cart.total` now adds up all the lines once."))
    assert reply.summary and "fails" not in everything(reply)


def test_a_piped_check_whose_output_says_nothing_is_not_called_passed() -> None:
    reply = told("Check it.", ran("mypy src | tail -3", "src/a.py:1: error: x\nFound 1 error"), stopped("See above."))
    assert "passes" not in everything(reply)


def test_words_of_the_client_are_nobodys() -> None:
    assert told("hello", stopped("No response requested.")).observations == ()
    assert "interrupted" not in everything(told("[Request interrupted by user]", stopped("")))
    plan = "Write the parser first.\n\nIf you need specific details from before exiting plan mode, read the transcript."
    assert [one.text for one in statements_of([Turn(1, 1, 0, 1, "user", None, plan, "", None)])] == [
        "Write the parser first."
    ]


def test_choices_of_the_user_are_decisions() -> None:
    asked = {"questions": [{"question": "Which auth?", "options": []}]}
    answer = used("AskUserQuestion", asked, {"answers": {"Which auth?": "A GitHub App"}})
    plan = used("ExitPlanMode", {"plan": "# Plan: Move the cache\n\n- Use Redis\n- Keep the old keys"}, "approved")
    reply = told("Set up the release.", answer, plan, stopped("ok"))
    assert {one.title for one in reply.observations if one.type == "decision"} == {"Which auth? → A GitHub App"}
    (agents,) = (one for one in reply.observations if one.title == "Plan: Move the cache")
    assert (agents.mark, agents.fact_marks) == (ClaimMark.PROPOSED, (ClaimMark.PROPOSED, ClaimMark.PROPOSED)), (
        "the agent wrote it"
    )


def test_a_commit_is_evidence_and_a_title_where_nothing_was_said() -> None:
    commit = ran('git commit -m "Round once"', "[main 1234567] Round once\n 1 file changed")
    reply = told(
        "Commit it.", edited("cart.py", "a", "b"), commit, stopped("Fixed the rounding in `cart.py`: it is done once.")
    )
    assert "Commit 1234567: “Round once”" in reply.observations[0].facts
    assert told("commit", edited("cart.py", "a", "b"), commit, stopped("")).observations[0].title == (
        "Commit 1234567: “Round once”"
    )


def test_a_change_of_which_nothing_is_said_is_told_by_its_symbols() -> None:
    reply = told("go on", wrote("shop/cart.py", "def total():\n    return 1\n"), stopped(""))
    assert reply.observations[0].title == "Create shop/cart.py"
    assert reply.observations[0].files_modified == ("shop/cart.py",)


def test_output_that_was_pasted_into_a_prompt_is_not_what_somebody_said() -> None:
    output = [f"✓ Step {number} is finished" for number in range(8)] + ["The cache was dropped.", "=== End ==="]
    prompt = "\n".join(["The run below never drops the log.", *output, "Find out why it keeps the log."])
    said = [one.text for one in statements_of([Turn(1, 1, 0, 1, "user", None, prompt, "", None)])]
    assert said == ["The run below never drops the log.", "Find out why it keeps the log."]
    summary = told(prompt, wrote("log.py", "x = 1\n"), stopped("Done.")).summary
    assert summary and summary.request == "The run below never drops the log. Find out why it keeps the log."
    few = "\n".join(["Do as follows.", "$ make test", "Then drop the cache.", "$ make run", "Never push."])
    said = [one.text for one in statements_of([Turn(1, 1, 0, 1, "user", None, few, "", None)])]
    assert any("drop the cache" in one for one in said)


def test_items_have_their_headings() -> None:
    talk = Talk()
    talk.round("?", stopped("## Root cause\n\n- **Cache**: it is never cleared\n\nDone:\n- one\n"))
    found = [(one.text, one.heading, one.label) for one in statements_of(talk.turns) if one.is_item]
    assert found == [("Cache: it is never cleared", "Root cause", "Cache"), ("one", "Root cause", "")]


def test_an_item_below_another_has_it_as_its_heading() -> None:
    message = "## Changes\n\n- `CartStore`:\n  - Returns the cached rows\n    - at most ten\n- **Tests**: two more\n"
    talk = Talk()
    talk.round("?", stopped(message))
    found = [(one.text, one.heading) for one in statements_of(talk.turns) if one.is_item]
    assert found == [
        ("`CartStore`:", "Changes"),
        ("Returns the cached rows", "`CartStore`"),
        ("at most ten", "Returns the cached rows"),
        ("Tests: two more", "Changes"),
    ]


def titles_of(*rounds: tuple[str, str]) -> list[str]:
    """The titles that stand after rounds of a prompt and a closing reply."""
    talk = Talk()
    for prompt, reply in rounds:
        talk.round(prompt, edited("till.py", "a", "b"), stopped(reply))
    return [marked(one)[0] for one in talk.standing.values()]


def marked(one: Observation) -> list[str]:
    """The title and the facts of an observation, each after its label."""
    return [PRINTED[mark] + text for mark, text in ((one.mark, one.title), *one.marked_facts)]


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (
            "**Removed:**\n- `agent_type_test.py`, a test file of its own, because others cover it",
            "Removed: `agent_type_test.py`, a test file of its own, because others cover it",
        ),
        (
            'It logs "session completed (several at once)" because readers look for it in `till.log`.',
            'It logs "session completed (several at once)" because readers look for it in `till.log`',
        ),
    ],
)
def test_a_title_keeps_what_its_meaning_hangs_on(said: str, title: str) -> None:
    """A heading, or parentheses in a quotation."""
    assert title in titles_of(("Look at the till.", said))


def test_a_request_is_no_memory_and_a_rule_is() -> None:
    rule = "Add no dependency without asking me, because the till runs offline."
    kept = titles_of((f"Add a test that checks the whole command of `till close`. {rule}", "Added `test_close`."))
    assert f"User: {rule.rstrip('.')}" in kept
    assert not [title for title in kept if "Add a test" in title]


def test_it_is_told_who_said_something_and_when() -> None:
    """Only what closes a round stands by itself: users claim, and what was found before may be overtaken."""
    rule = "Never edit `prices.csv` by hand, because the export overwrites it."
    found = "The total is wrong because `add_tax` rounds every row of `cart.py` before the sum."
    cause = "The root cause was that `load_rates` in `cart.py` read the rates of last year."
    said = (("user", f"Why is the total wrong? {rule}"), ("assistant", found), ("assistant", cause))
    turns = tuple(Turn(at, 1, at, 1, role, None, text, "", None) for at, (role, text) in enumerate(said))
    round_ = replace(a_round(said[0][1], edited("cart.py", "a", "b"), stopped(cause)), turns=turns)
    kept = {text.rstrip(".") for one in tell(round_).observations for text in (one.narrative, *marked(one))}
    assert kept == {"", f"User: {rule[:-1]}", f"Earlier: {found[:-1]}", cause[:-1]}


def test_an_error_that_a_user_reports_is_no_memory_by_itself() -> None:
    """What was done about it is."""
    done = "`load_rates` now skips empty rows of `rates.csv`, because the bank sends one at midnight."
    report = "The import failed with ValueError at 3 in `load_rates` of `rates.csv` during the night."
    assert titles_of((report, done)) == [done.rstrip(".")]


def test_a_proposal_is_marked_as_one() -> None:
    """Nobody has agreed to it when the session ends."""
    said = (
        "The rates are read once, because `load_rates` caches them. We could drop the cache of `load_rates` and "
        "keep the rates of a day in the `rates` table instead. Should I implement that?"
    )
    titles = titles_of(("Why are the rates old?", said))
    assert "The rates are read once, because `load_rates` caches them" in titles
    assert [one for one in titles if one.startswith("Proposed: We could drop the cache")]
    imagined = "Then callers would hand the day to `load_rates`, and the table keeps forty rates for each of them."
    assert titles_of(("How could it look?", imagined)) == [f"Proposed: {imagined.rstrip('.')}"]


def test_a_short_title_keeps_its_aside() -> None:
    said = "`save_row` writes only two of the fields (the name and the price)."
    assert titles_of(("What is saved?", said)) == [said.rstrip(".")]


def test_a_sentence_that_announces_a_list_is_told_with_the_list() -> None:
    said = "The rounding in `cart.py` was changed in two places:\n- `add_tax` rounds the sum\n- `discount` never rounds"
    titles = titles_of(("Mend the rounding.", said))
    assert any(title.endswith("two places: `add_tax` rounds the sum; `discount` never rounds") for title in titles), (
        titles
    )


def test_what_does_not_stand_alone_is_no_title() -> None:
    """A number of a list that is not told, one half of a comparison, and praise."""
    for said in (
        "Only #1 and #2 of the rounding rules are carried out in `cart.py` so far.",
        "Before: `add_tax(row)` rounded every single row of the cart.",
        "The implementation is much cleaner now, and consistent with the rest of the shop.",
    ):
        kept = "`load_rates` now skips empty rows of `rates.csv`, because the bank sends one at midnight."
        assert titles_of(("Mend the tax.", f"{said}\n\n{kept}")) == [kept.rstrip(".")]


def test_what_was_said_before_a_question_for_the_next_step_is_kept() -> None:
    asked = {"questions": [{"question": "Plan ready at `plan.md`. What would you like to do next?"}]}
    question, limit = asked["questions"][0]["question"], "Show the warning once, and only where a hook can print it."

    def titles(answer: str) -> list[str]:
        event_ = used("AskUserQuestion", asked, {"answers": {question: answer}})
        return [marked(one)[0] for one in told("Plan it.", event_, stopped("Done.")).observations]

    assert titles("Start the work") == ["Earlier: Plan ready at `plan.md`."]
    assert titles(limit) == [f"{question} → {limit}"]


def test_the_subtitle_is_the_heading_of_a_list() -> None:
    said = (
        "## Rounding of taxes\n- `add_tax` takes the sum, because a tax on each row is off by a cent in the worst case"
    )
    (one,) = told("Mend the tax.", edited("cart.py", "a", "b"), stopped(said)).observations
    assert one.subtitle == "Rounding of taxes"


def test_a_title_is_marked_once_a_later_round_changes_files() -> None:
    """It stays the same observation."""
    talk, said = Talk(), "`load_rates` keeps the rates of a day in memory, because the till has no database."
    talk.round("How are rates read?", read("rates.py", "1"), stopped(said))
    before = {number: one.title for number, one in talk.standing.items()}
    assert list(before.values()) == [said.rstrip(".")]
    talk.round("And how many are there?", stopped("It reads about forty rates every morning."))
    assert before.items() <= {number: one.title for number, one in talk.standing.items()}.items()
    talk.round("Round the sum.", edited("cart.py", "a", "b"), stopped("`add_tax` now rounds the sum in `cart.py`."))
    told = {number: PRINTED[one.mark] + one.title for number, one in talk.standing.items()}
    assert {number: f"Earlier: {title}" for number, title in before.items()}.items() <= told.items()
    assert "`add_tax` now rounds the sum in `cart.py`" in told.values()


def test_a_problem_that_was_mended_is_not_told_as_one() -> None:
    """It stands while nobody mended it."""
    problem = "`find_receipt` only looks at the newest drawer because its loop returns at once."
    assert problem.rstrip(".") in titles_of(("Why is it lost?", problem))
    mended = "Modified `find_receipt`: it walks through every till of the shop, since customers come back late."
    assert titles_of(("Why is it lost?", problem), ("Mend it.", mended)) == [mended.rstrip(".")]


def interrupted(**ending: Any) -> Event:
    """The end of a round that the user interrupted."""
    return event("stop", None, {"is_interrupted": True, "is_unfinished": True, **ending})


def under_way(tool: str, **given: str) -> dict[str, Any]:
    return {"under_way": [{"tool_name": tool, "tool_input": given}]}


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (
            interrupted(**under_way("Bash", command="make soak")),
            "Interrupted by the user while running `make soak`, after editing cart.py.",
        ),
        (
            interrupted(**under_way("Edit", file_path=f"{HOME}/b.py", old_string="a", new_string="b")),
            "Interrupted by the user while editing b.py, after editing cart.py.",
        ),
        (interrupted(), "Interrupted by the user, after editing cart.py."),
        (event("stop", None, {"is_unfinished": True}), "Ended without a closing reply, after editing cart.py."),
        (
            event("stop", None, {"error": "rate_limit"}),
            "Ended with an API error (rate_limit), after editing cart.py.",
        ),
    ],
)
def test_a_round_without_a_closing_reply_says_so(end: Event, left: str) -> None:
    reply = told("Make the total right, then run the soak.", edited("cart.py", "a", "b"), end)
    assert reply.summary
    assert reply.summary.request == "Make the total right, then run the soak."
    assert reply.summary.next_steps == left
    assert reply.summary.notes == "Not committed: cart.py."
    assert not reply.summary.completed


def test_a_whole_paragraph_of_next_steps_is_open() -> None:
    """A label counts for all sentences of its paragraph, so that none of them is told as a discovery."""
    said = (
        "**Cause:** `apply_discount` added the amount on every call, so a code typed twice counted twice.\n\n"
        "**Next step:** the checkout page still shows the old total until the cache expires. "
        "Clear that entry in `shop/views.py` when a discount is applied."
    )
    reply = told("Why is the total wrong?", stopped(said))
    assert reply.summary
    assert "shows the old total" in reply.summary.next_steps
    assert "Clear that entry in `shop/views.py`" in reply.summary.next_steps
    assert [one.title[:6] for one in reply.observations] == ["Cause:"]


def test_words_before_an_interruption_are_no_closing_reply() -> None:
    """What the agent says between tool uses may never have come true."""
    turns = (("user", "Make the total right."), ("assistant", "Next step: I have fixed the total, now all tests pass."))
    said = tuple(Turn(at, 1, at, 1, role, None, text, "", None) for at, (role, text) in enumerate(turns))
    events = (edited("cart.py", "a", "b"), interrupted(**under_way("Bash", command="make test")))
    summary = tell(replace(a_round(turns[0][1], *events), turns=said)).summary
    assert summary and "all tests pass" not in f"{summary.completed} {summary.next_steps} {summary.learned}"


def test_a_command_that_was_interrupted_is_not_done() -> None:
    """Older clients report its output."""
    error = "Exit code 137\n[Request interrupted by user for tool use]\n3 passed in 0.1s"
    for stopped_run in (
        failed("Bash", {"command": "pytest"}, error),
        used("Bash", {"command": "pytest"}, {"stdout": "3 passed in 0.1s", "stderr": "", "interrupted": True}),
    ):
        reply = told("Test the cart.", edited("cart.py", "a", "b"), stopped_run, interrupted())
        assert reply.summary and "passes" not in everything(reply)
        assert "Interrupted by the user while running `pytest`, after editing cart.py." in reply.summary.next_steps


def test_what_the_user_rejected_is_kept() -> None:
    """With the reason, whatever follows; without one, it ends the round."""
    given = {"tool_input": {"command": "rm -rf build"}, "error": "The user rejected this."}
    reason = "never delete the build folder, the release is signed from it"
    rejected = event("tool_failure", "Bash", {**given, "rejected": reason})
    kept = everything(told("Clean the repository up.", rejected, stopped("I left the build folder alone.")))
    assert f"The user rejected running `rm -rf build`: {reason}" in kept
    reply = told("Clean the repository up.", event("tool_failure", "Bash", {**given, "rejected": ""}), interrupted())
    assert reply.summary and reply.summary.next_steps == "The user rejected running `rm -rf build`."


@pytest.mark.parametrize(
    ("tool", "given", "left"),
    [
        ("ExitPlanMode", {"plan": "# Plan: Move the cache\n\n- Use Redis"}, "rejected the plan “Move the cache”"),
        ("AskUserQuestion", {"questions": [{"question": "Which auth?"}]}, "did not answer “Which auth?”"),
        ("Write", {"file_path": f"{HOME}/b.py", "content": "x"}, "rejected writing b.py"),
        ("mcp__tracker__comment", {"body": "x"}, "rejected using mcp__tracker__comment"),
    ],
)
def test_what_can_be_rejected(tool: str, given: Any, left: str) -> None:
    rejected = event("tool_failure", tool, {"tool_input": given, "error": "The user rejected this.", "rejected": ""})
    summary = told("Set up the release.", rejected, interrupted()).summary
    assert summary and f"The user {left}" in summary.next_steps


def test_a_reason_does_not_object_to_the_round_before() -> None:
    talk = Talk()
    talk.round(
        "Why do tests fail?", stopped("The root cause is the stale cache in `store.py`, which is never cleared.")
    )
    given = {"tool_input": {"file_path": f"{HOME}/store.py"}, "error": "The user rejected this."}
    wrong = event("tool_failure", "Edit", {**given, "rejected": "wrong file. Revert it and edit cache.py"})
    talk.round(
        "Clear it.", wrong, edited("cache.py", "a", "b"), stopped("`cache.py` now clears the cache at the start.")
    )
    assert any("stale cache" in one.title for one in talk.standing.values())


def test_a_round_that_has_not_ended_says_what_was_done_last() -> None:
    """The agent may have been killed, and then nothing more comes."""
    whole = a_round("Make the total right.", edited("cart.py", "a", "b"), ran("make check | tail -1"))
    summary = tell(whole).summary
    assert summary and summary.next_steps.startswith(
        "No closing reply so far, after editing cart.py, running `make check"
    )
    assert (summary.request, summary.notes) == ("Make the total right.", "Not committed: cart.py.")
    assert tell(later(replace(whole, events=(*whole.events, stopped("Done."))), ran("ls"))).summary is None


def test_files_stay_uncommitted_until_a_commit() -> None:
    """Whichever round of the session changed them."""
    run = replace(a_round("Run the soak.", interrupted()), notes_before="Not committed: cart.py, b.py and 3 more.")
    summary = tell(run).summary
    assert summary and summary.notes == "Not committed: cart.py, b.py."
    commit = ran('git commit -am "Round once"', "[main 1234567] Round once\n 2 files changed")
    summary = tell(replace(run, events=(commit, stopped("Committed.")))).summary
    assert summary and not summary.notes


def test_a_fragment_is_told_with_its_heading() -> None:
    """A file alone tells nothing; what its list is about does."""
    file = "`release/sign_windows_binary.py`"
    talk = Talk()
    talk.round("Look at the release", stopped(f"**Only this file signs the binary twice:**\n- {file}"))
    assert [one.title for one in talk.standing.values()] == [f"Only this file signs the binary twice: {file}"]


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("No secrets are written by the new logger, since `mask` runs first.", "No secrets are written"),
        ("No-op writes are skipped because `save` compares the digests first.", "No-op writes are skipped"),
        ("No, the cache is never emptied because `clear` returns too early.", "The cache is never emptied"),
        ("Good news: the cache is emptied now because `clear` waits.", "The cache is emptied"),
    ],
)
def test_a_word_that_is_left_out_does_not_change_the_meaning(said: str, title: str) -> None:
    reply = told("What about it?", read("a.py", "x = 1\n"), stopped(said))
    assert [one.title.startswith(title) for one in reply.observations] == [True]


def test_that_tests_pass_is_no_memory() -> None:
    said = "All unit and integration tests pass with `mise run test:ci` and the linter is clean."
    reply = told("Fix the till.", edited("till.py", "x = 1", "x = 2"), stopped(said))
    assert not [one for one in reply.observations if said.rstrip(".") in (one.title, *one.facts)]


@pytest.mark.parametrize(
    "said", ["It is empty because nobody saves it.", "The till is off because it counts the drawer twice."]
)
def test_the_only_thing_that_was_said_is_kept(said: str) -> None:
    """Also if it is short, plain and names nothing."""
    assert [one.title for one in told("Look at it.", stopped(said)).observations] == [said.rstrip(".")]


def test_a_state_that_the_work_then_changed_is_not_told() -> None:
    """Neither what was wrong while it was being mended, nor what was only offered."""
    before = "The till currently duplicates `Cart.total` and `rounding` is not being applied to it."
    after = "Fixed the till: `Till.close` now calls `Cart.total`, which rounds once."
    said = enumerate((("user", "Mend the till."), ("assistant", before), ("assistant", after)))
    turns = tuple(Turn(at, 1, at, 1, role, None, text, "", None) for at, (role, text) in said)
    round_ = a_round("Mend the till.", edited("till.py", "a", "b"), stopped(after))
    reply = tell(replace(round_, turns=turns))
    assert "calls `Cart.total`" in everything(reply)
    assert "currently" not in everything(reply)
    offer = (
        "`Till.close` calls `print_receipt` twice because it was copied.\n\n"
        "- `print_receipt` goes to a module of its own, and `Till` imports it from there\n\n"
        "Want me to make that change?"
    )
    reply = told("Review the till.", read("till.py", "x = 1\n"), stopped(offer))
    assert not [one for one in reply.observations if "imports it" in " ".join((one.title, *one.facts))]


@pytest.mark.parametrize(
    ("statement", "prompt", "has_changes", "type_"),
    [
        ("The total was too high because `total` added 1 to every sum", "The total is wrong. Fix it.", True, "bugfix"),
        ("Root cause: the client sent `b` instead of `a`", "Why is it slow?", False, "discovery"),
        ("We use urllib rather than requests because nothing is installed", "Write a fetcher.", True, "decision"),
        ("We decided against requests", "Write a fetcher.", True, "decision"),
        ("`load` now calls `fetch` instead of `get`", "Update it.", True, "change"),
        ("`Money.format` supports yen because a shop in Tokyo asked", "Add yen.", True, "feature"),
        ("Moved `total` to cart.py", "Tidy this.", True, "refactor"),
        ("The shop opens at nine", "When does it open?", True, "change"),
    ],
)
def test_a_statement_has_a_type(statement: str, prompt: str, has_changes: bool, type_: str) -> None:
    assert type_of(statement, prompt, has_changes) == type_
