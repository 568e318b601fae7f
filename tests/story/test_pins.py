"""Pin and supersede, from the command to what a session is told."""

from __future__ import annotations

import json

from box import Box


def remember(box: Box, text: str, *more: str) -> int:
    return int(json.loads(box.cli("remember", text, "--json", *more).stdout)["id"])


def test_what_is_pinned_always_stands_in_context(running: Box) -> None:
    """Behind the hand-off and before the rest, however much came since, and after a compaction too; until unpinned."""
    running.hook("UserPromptSubmit", {"session_id": "s", "prompt": "Mend the cart."})
    running.hook("Stop", {"session_id": "s", "last_assistant_message": "The cart is mended. " + "It was broken. " * 99})
    running.settle()
    number = remember(
        running, "Prices are kept in cents, in every table and on every wire, and nobody rounds them before the end."
    )
    running.client.post("/api/memories", {"text": "Of another project.", "project": "p"})
    for count in range(130):
        text = f"Something else that takes a line of its own, as long as a line of a context can be, number {count}."
        running.client.post("/api/memories", {"text": text, "cwd": str(running.project)})
    assert f"#{number} " not in running.told()
    assert 9_300 < len(running.told()) <= 9_500
    assert "Pinned: #" in running.cli("pin", str(number)).stdout
    told = running.told()
    assert told.count(f"#{number} decision: Prices are kept in cents") == 1
    places = [told.index(words) for words in ("## Last session", "## Pinned", f"#{number} ", "number 129")]
    assert places == sorted(places)
    assert f"#{number} decision: Prices are kept in cents" in running.told("s", "compact")
    assert "Pinned" in running.cli("show", str(number)).stdout
    running.cli("pin", f"#{number}", "--off")
    assert "## Pinned" not in running.told()


def test_pins_leave_room_for_the_hand_off(running: Box) -> None:
    """Twenty long pins and a long hand-off: both are there, within the budget."""
    running.hook("UserPromptSubmit", {"session_id": "s", "prompt": "Mend the cart. " * 50})
    running.hook("Stop", {"session_id": "s", "last_assistant_message": "The cart is mended. " * 200})
    running.settle()
    for count in range(25):
        row = running.client.post(
            "/api/memories", {"text": f"Rule {count}: " + "never again " * 40, "cwd": str(running.project)}
        )
        running.client.patch(f"/api/observations/{row['id']}", {"pinned": True})
    told = running.told()
    assert len(told) <= 10_000
    assert "Mend the cart." in told and "Rule 24" in told and told.count("never again") > 100


def test_what_was_replaced_is_history(running: Box) -> None:
    """It leaves the context, search and show point to what holds, and a circle or a stranger is refused in words."""
    old = remember(running, "The port is 8080.")
    new = remember(running, "The port is 9090.")
    other = remember(running, "Elsewhere.", "--project", "elsewhere")
    running.cli("supersede", str(old), str(new))
    told = running.told()
    assert "9090" in told and "8080" not in told
    hits = {hit["id"]: hit["superseded_by"] for hit in running.client.get("/api/search", query="port")["items"]}
    assert hits == {old: new, new: None}
    assert f"(replaced by #{new})" in running.cli("search", "port").stdout
    assert f"Replaced by #{new}" in running.cli("show", str(old)).stdout
    for words, says in (
        ((str(new), str(old)), "was itself replaced"),
        ((str(new), str(new)), "itself"),
        ((str(new), str(other)), "another project"),
        ((str(new), "4711"), "There is no observation 4711"),
        (("4711", str(new)), "There is no observation 4711"),
        ((str(old),), "Give two ids"),
        (("x", str(new)), "not an id"),
    ):
        refused = running.cli("supersede", *words, check=False)
        assert refused.returncode == 1 and says in refused.stderr, refused
    running.cli("supersede", str(old), "--off")
    assert "8080" in running.told()


def test_pinning_is_no_new_version(running: Box) -> None:
    """An export from before does not lose the observation to its own mark, as it does one that was edited."""
    number = remember(running, "The port is 8080.")
    running.cli("pin", str(number))
    kept = running.root / "kept.jsonl"
    running.cli("export", "--output", str(kept))
    running.cli("import", "backstory", str(kept))
    assert running.rows("SELECT * FROM forgotten") == []
    assert len(running.rows("SELECT 1 FROM observations")) == 1
