"""I16: a text is recognised in a copy of the conversation, whatever was cut from it before it was forgotten."""

from __future__ import annotations

import pytest
from box import Box
from test_private import assert_nowhere
from transcripts import Script

REPLIES = {
    "quollone": "The quollone handler rounded twice. Decision: we use quollonedec cents for all totals.",
    "quolltwo": "We looked at it. The quolltwo handler rounded twice. It is the fault of quolltwoside. "
    "Decision: we use quolltwodec cents for all totals. The quolltwotoken stays.",
}


def talk(box: Box, session: str, word: str) -> Script:
    """A round whose prompt does not have the word, so that a copy of the round is not left out as a whole."""
    script = Script(session, str(box.project), prompt_ids=False)
    script.prompt(f"Please look at the totals of the shop with {len(REPLIES[word])} tills")
    script.says(REPLIES[word])
    box.cli("import", "claude-code", str(script.write(box.root / "transcripts")))
    box.settle()
    return script


@pytest.mark.parametrize("way", ["words", "observations, then words", "one observation, then the session"])
def test_i16_a_reply_of_which_sentences_were_forgotten_does_not_come_back(running: Box, way: str) -> None:
    """Under another session id, with ids of its own, at the same time."""
    for number, word in enumerate(REPLIES):
        talk(running, f"s-{number}", word)
        found = running.rows("SELECT id FROM observations WHERE title LIKE ? ORDER BY id", f"%{word}%")
        numbers = [str(row["id"]) for row in found]
        assert numbers
        if "observation" in way:
            running.cli("forget", *(numbers[:1] if way.startswith("one") else numbers), "--yes")
        words = ["--session", f"s-{number}"] if "session" in way else ["--matching", word]
        running.cli("forget", *words, "--yes")
        talk(running, f"s-{number}-copy", word)
        assert_nowhere(running, word)
    assert len(running.client.get("/api/sessions")["items"]) >= 2, "the copies came in"
