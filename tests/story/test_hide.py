"""`hide` from the command, the tool and the route to what a session is told."""

from __future__ import annotations

import json

from box import Box
from test_forget import work
from test_forget_exact import NOISE, hooks, noise_of


def found(box: Box) -> list[int]:
    page = box.client.get("/api/search", query=f"{NOISE} helper", kind="observations")
    return [item["id"] for item in page["items"]]


def test_what_is_hidden_is_told_and_found_no_more_until_it_is_brought_back(running: Box) -> None:
    """A noise line, then its whole session. The summary does not tell the line in its place."""
    work(running, hooks("s-one"), "s-one")
    number = noise_of(running)
    assert f"#{number} " in running.told("s-two")
    assert running.cli("hide", f"#{number}").stdout.startswith(f"Hidden: #{number} ")
    told = running.told("s-two")
    assert NOISE not in told and "checkout page still shows" in told and "keep prices in cents" in told
    assert number not in found(running)
    assert "--undo" in running.cli("show", str(number)).stdout
    assert f"#{number} " in running.cli("hide", "--list").stdout
    timeline = running.client.get("/api/timeline", anchor=str(number + 1))["items"]
    assert (("observation", number) in {(item["kind"], item["id"]) for item in timeline}) is False
    export = running.root / "hidden.jsonl"
    running.cli("export", "--output", str(export))
    assert json.dumps(f"{NOISE}")[1:-1] in export.read_text(), "nothing is destroyed"
    running.cli("hide", "--undo", str(number))
    assert f"#{number} " in running.told("s-two")
    assert found(running)[0] == number
    running.cli("hide", "S1")
    assert "none on shop yet" in running.told("s-two")
    assert not running.client.get("/api/search", query="prices in cents")["items"]
    assert not running.client.get("/api/sessions/search", words="basket empty reload")["items"]
    assert running.client.get("/api/sessions/1")["observations"], "it can still be read"
    gone = json.loads(running.cli("hide", "--undo", "S1", "--json").stdout)
    assert [row["id"] for row in gone["sessions"]] == [1]
    assert running.client.get("/api/search", query="prices in cents")["items"]
    assert running.client.get("/api/sessions/search", words="basket empty reload")["items"]
    for words in ((), ("--list", "1"), ("x1",), ("4711",), ("S4711",)):
        assert running.cli("hide", *words, check=False).returncode != 0
