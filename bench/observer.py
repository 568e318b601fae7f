"""What a model costs: a real session of some 300 events through each provider, counted where the model would be."""

from __future__ import annotations

import argparse
import html
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import say, table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from box import COMMAND, Box, until  # noqa: E402 - the tests' machine and model, which are real but for the model
from claude import binary  # noqa: E402
from endpoint import Endpoint, Request, Step, answer  # noqa: E402

from backstory.text import tokens  # noqa: E402

#: A real session; see the README beside it.
SESSION = "08940314-9e93-46b1-a598-06bada65ed55.jsonl.gz"
DATA = ROOT.parent / "shared" / "data" / "claude-code" / "transcripts"
CLAUDE_MEM = 55_960
BUDGET = 2_800


@dataclass(frozen=True)
class Cost:
    """What one provider took for the session."""

    provider: str
    events: int
    rounds: int
    calls: int
    input_tokens: int
    observations: int
    summaries: int
    shown: int  #: lines of what may be replaced

    @property
    def each(self) -> float:
        return self.input_tokens / max(self.observations, 1)


def texts(value: Any) -> Iterator[str]:
    """Every text that a model would read of a request: its system prompt and messages, not their JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name in ("text", "content", "system", "messages", "input", "tools", "description", "name"):
            yield from texts(value.get(name))
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def read(requests: Sequence[Request]) -> int:
    """Tokens that came in, by our own estimate, which rather counts too many."""
    return sum(tokens(text) for request in requests for text in texts(request.body))


def lasting(request: Request) -> Step:
    """A good answer, as decisions in the round's own words: later rounds may replace them, and are shown them."""
    words = re.findall(r'<(?:event n|said event)="\d+".*>\n(.*)', request.texts("user")[-1]) or ["It was so"]

    def one(told: re.Match[str]) -> str:
        title = html.escape(words[min(int(told[1]), len(words) - 1)][:120])
        return f"<type>decision</type><title>{title}</title>"

    return re.sub(r"<type>\w+</type><title>Told \w+ (\d+)</title>", one, answer(request))


def settings(provider: str, endpoint: Endpoint) -> dict[str, str]:
    given = {"BACKSTORY_PROVIDER": provider}
    if provider == "claude":
        return given | {
            "ANTHROPIC_BASE_URL": endpoint.url,
            "ANTHROPIC_API_KEY": "made-up",
            "BACKSTORY_CLAUDE_PATH": str(binary()),
        }
    address = endpoint.url + ("/v1" if provider == "openai" else "")
    return given | {"BACKSTORY_BASE_URL": address, "BACKSTORY_API_KEY": "made-up", "BACKSTORY_MODEL": "scripted"}


def measure(provider: str, session: Path) -> Cost:
    """Import the session, have it observed, and count."""
    with tempfile.TemporaryDirectory() as folder, Endpoint(lasting) as endpoint:
        box = Box(Path(folder))
        box.tuning |= {"observers": 1, "past_days": 0}
        box.home.mkdir()
        box.project.mkdir()
        box.settings |= settings(provider, endpoint)
        try:
            box.start()
            subprocess.run([COMMAND, "import", "claude-code", session], env=box.env, check=True, capture_output=True)
            until(lambda: not any((box.health() or {"queue": {"queued": 1}})["queue"].values()), "the observer", 900)
            return _cost(box, provider, endpoint.requests)
        finally:
            box.clean_up()


def _cost(box: Box, provider: str, requests: Sequence[Request]) -> Cost:
    def count(sql: str) -> int:
        return int(box.rows(f"SELECT COUNT(*) AS n FROM {sql}")[0]["n"])  # noqa: S608 - our own words

    observed = "events WHERE kind IN ('tool', 'tool_failure', 'stop', 'subagent_stop') AND status = 'done'"
    stood_in = count("observations WHERE instead_of IS NOT NULL")
    assert not stood_in, f"{provider}: the rules had to stand in for {stood_in} observations"
    return Cost(
        provider,
        count(observed),
        count(f"(SELECT DISTINCT prompt_number FROM {observed}) r"),  # noqa: S608
        len(requests),
        read(requests),
        count("observations"),
        count("session_summaries WHERE source = 'stop'"),
        sum(len(re.findall(r"^#\d+ decision: ", r.texts("user")[-1], re.M)) for r in requests),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("providers", nargs="*", metavar="PROVIDER", help="of anthropic, openai, claude; all if none")
    parser.add_argument("--session", type=Path, default=DATA / SESSION, help="a transcript of Claude Code")
    chosen = parser.parse_args()
    if not chosen.session.exists():
        print(f"The session is not here: {chosen.session.name}.")
        return
    rows = []
    for provider in chosen.providers or ["anthropic", "openai", *(["claude"] if binary() else [])]:
        say(provider)
        cost = measure(provider, chosen.session)
        assert cost.each <= BUDGET, cost
        assert cost.calls <= cost.rounds, cost
        rows.append(
            (
                provider,
                f"{cost.events}",
                f"{cost.rounds}",
                f"{cost.calls}",
                f"{cost.input_tokens:,}",
                f"{cost.observations}",
                f"{cost.shown}",
                f"**{cost.each:,.0f}**",
            )
        )
    rows.append(("claude-mem (its own figure)", "", "", "one a tool use", "", "201", "", f"{CLAUDE_MEM:,}"))
    head = ("provider", "events", "rounds", "calls", "input tokens", "observations", "shown", "tokens an observation")
    print(table(head, rows))
    print(
        "\nTokens are counted at the endpoint, from the text of each request (system prompt and messages), by "
        "`backstory.text.tokens`, an estimate that rather counts too many; the endpoint answers with one observation "
        "for every five events, in the round's own words, so that later rounds are shown what they may replace."
    )


if __name__ == "__main__":
    main()
