"""Reading, pages, reports and choices are told by what was found, a few per round."""

from __future__ import annotations

from acted import HOME, edited, event, only, read, stopped, told, used, words

STORE = "package store\n\ntype Store struct{}\n\nfunc (s *Store) Get(id string) error {\n\treturn nil\n}\n"
ANSWER = """\
Great question!

Sessions are kept in **`store.go`** and expire after 30 minutes, because the sweep deletes idle ones.

- `Store.Get` loads a session by id and never creates one
- The sweep runs every five minutes in its own goroutine

Let me know if you need more.
"""


def test_a_round_of_reading_is_one_discovery_with_its_conclusion() -> None:
    """Ten reads and a search make one observation that says what was found out."""
    reads = [read(f"pkg/f{n}.go", f"package pkg\n\nfunc F{n}() {{}}\n") for n in range(10)]
    found = {"mode": "content", "content": f"{HOME}/store.go:5:func (s *Store) Get", "filenames": []}
    search = used("Grep", {"pattern": "Store.*Get"}, found)
    observation = only(told("how do sessions expire?", *reads, read("store.go", STORE), search, stopped(ANSWER)))
    assert observation.type == "discovery"
    assert observation.title.startswith("Sessions are kept in `store.go` and expire after 30 minutes")
    assert "`Store.Get` loads a session by id and never creates one" in observation.facts
    assert "store.go" in observation.files_read
    assert len(observation.files_read) == 11
    assert "how-it-works" in observation.concepts


def test_without_a_conclusion_the_definitions_are_told() -> None:
    """A round that goes on still says what is where: symbols with their lines, hits with their places."""
    search = used("Grep", {"pattern": "Get"}, f"{HOME}/store.go:5:func (s *Store) Get\n{HOME}/main.go:9:\ts.Get(id)")
    observation = only(told("understand Get", read("store.go", STORE), search))
    assert "store.go: `Store.Get` (line 5), `Store` (line 3)" in observation.facts
    assert "`Get` is in store.go:5, main.go:9" in observation.facts


def test_reads_of_numbered_text_keep_their_line_numbers() -> None:
    """Agents that answer with numbered lines are read by those numbers."""
    text = "    40→func Total() int {\n    41→\treturn 1\n    42→}"
    observation = only(told("look at Total", used("Read", {"file_path": "cart.go", "offset": 40}, text)))
    assert "cart.go: `Total` (line 40)" in observation.facts


def test_one_file_read_for_a_change_is_no_news() -> None:
    """What was read on the way to an edit makes no observation of its own."""
    reply = told("tune", read("store.go", STORE), edited("main.go", "x := 1", "x := 2"), stopped("Done."))
    assert [one.type for one in reply.observations] == ["change"]


def test_a_page_is_told_by_what_it_says() -> None:
    """Host, first sentences and source of what was fetched."""
    page = used(
        "WebFetch",
        {"url": "https://docs.example.org/retry", "prompt": "is there a retry?"},
        {"result": "# Retry\n\nThe client retries idempotent requests three times with growing pauses.\n", "code": 200},
    )
    observation = only(told("check the client", page))
    assert observation.title.startswith("docs.example.org: The client retries idempotent requests")
    assert "Source: https://docs.example.org/retry" in observation.facts


def test_a_subagent_is_told_by_its_conclusion_once() -> None:
    """The report and its SubagentStop are one observation."""
    report = (
        "I have completed my review.\n\nThe cache is never invalidated when a price changes in `prices.py`.\n\n"
        "- Prices are read once at import"
    )
    task = used("Task", {"description": "Review caching"}, {"content": [{"type": "text", "text": report}]})
    end = event("subagent_stop", None, {"last_assistant_message": report, "agent_type": "reviewer"})
    observation = only(told("review it", task, end))
    assert observation.title.startswith("Review caching: The cache is never invalidated when a price changes")
    assert "Prices are read once at import" in observation.facts


def test_a_compaction_is_not_a_report() -> None:
    """The agent's own summary of the conversation is no discovery."""
    text = "<analysis>In order.</analysis>\n\n<summary>A change was asked for, made and tested at length.</summary>"
    assert (
        told("go on", event("subagent_stop", None, {"last_assistant_message": text, "agent_type": ""})).observations
        == ()
    )


def test_a_choice_with_its_reason_is_a_decision() -> None:
    """The sentence that states it is quoted."""
    message = "Updated.\n\nI chose SQLite over a JSON file because two processes write at once."
    reply = told("store the carts", edited("a.py", "x = 1", "x = 2"), stopped(message))
    decision = only(reply, "decision")
    assert decision.title == "I chose SQLite over a JSON file because two processes write at once."
    assert reply.summary is not None
    assert "because two processes write at once" in reply.summary.learned


def test_a_suggestion_is_not_a_decision() -> None:
    """What could be done has not been decided."""
    message = "Done with it.\n\nYou could use Redis instead of SQLite because it is faster. Should I do that?"
    reply = told("store the carts", edited("a.py", "x = 1", "x = 2"), stopped(message))
    assert "decision" not in {one.type for one in reply.observations}


def test_an_accepted_plan_is_a_decision() -> None:
    """Its title and its steps are kept."""
    plan = (
        "# Keep carts in SQLite\n\nThey get lost on restart.\n\n"
        "1. Add a `carts` table with an expiry\n2. Move `load_cart` over to it\n"
    )
    observation = only(told("plan it", used("ExitPlanMode", {"plan": plan}, "User has approved your plan.")))
    assert observation.type == "decision"
    assert observation.title == "Plan: Keep carts in SQLite"
    assert "Add a `carts` table with an expiry" in observation.facts


def test_small_talk_leaves_no_observation() -> None:
    """A round that found out nothing is told by nobody."""
    assert told("thanks", stopped("You're welcome! Let me know if there is anything else.")).observations == ()


def test_nothing_is_told_about_tools() -> None:
    """No observation speaks of tools by their names."""
    reply = told("how?", read("store.go", STORE), used("Grep", {"pattern": "Get"}, "No matches found"), stopped(ANSWER))
    said = " ".join(words(one) for one in reply.observations)
    assert not any(word in said for word in ("Grep", "Read tool", "PostToolUse", "tool_use"))
