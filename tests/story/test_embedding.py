"""Search by meaning in the real worker: made in the background, in nobody's way, and gone with what it was made of."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from box import Box, until

pytestmark = pytest.mark.usefixtures("meaning")

CANARY = "heliotrope9d41"


class Embeddings:
    """An OpenAI-compatible endpoint on loopback that counts letters, and can be told to fail."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.keys: set[str | None] = set()
        self.status = 200
        self.answers = threading.Event()
        self.answers.set()
        told = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                told.keys.add(self.headers["Authorization"])
                told.asked += body["input"]
                told.answers.wait(60)
                data = [
                    {"index": i, "embedding": [text.lower().count(chr(97 + n)) for n in range(26)]}
                    for i, text in enumerate(body["input"])
                ]
                raw = json.dumps({"data": data[::-1]}).encode() if told.status == 200 else b"no"
                self.send_response(told.status)
                if told.status == 302:
                    self.send_header("Location", f"{told.url}/elsewhere")
                self.send_header("Content-Length", str(len(raw)))
                with contextlib.suppress(OSError):  # whoever asked may be gone
                    self.end_headers()
                    self.wfile.write(raw)

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Embeddings]:
    made = Embeddings()
    yield made
    made.close()


def remember(box: Box, *texts: str) -> list[int]:
    return [box.client.post("/api/memories", {"text": text, "project": "shop"})["id"] for text in texts]


def told(box: Box) -> dict[str, Any]:
    found: dict[str, Any] = box.client.get("/api/vectors")
    return found


def made(box: Box) -> dict[str, Any]:
    """Wait until everything has its vector."""
    found: dict[str, Any] = until(lambda: (now := told(box))["vectors"] and not now["due"] and now, "the vectors")
    return found


def maps(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def memory_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


def test_a_worker_with_nothing_to_embed_loads_nothing(box: Box) -> None:
    """numpy and the weights come with the first text; with them it stays under 150 MB."""
    worker = box.start()
    until(lambda: told(box)["embedder"] == "static", "its name")
    assert "numpy" not in maps(worker.pid)
    remember(box, *(f"The basket rounds the price of thing {n} once." for n in range(20)))
    assert made(box)["vectors"] == 20
    assert "numpy" in maps(worker.pid) and "wordllama" in maps(worker.pid)
    assert memory_mb(worker.pid) < 150
    assert "search    by words and by meaning\n" in box.cli("status").stdout
    box.stop(worker)
    again = box.start()
    done = {"embedder": "static", "next": "", "vectors": 20, "due": 0, "problem": ""}
    until(lambda: told(box) == done, "its name")
    assert "numpy" not in maps(again.pid), "nor does one whose work is done"


def killed_in_the_middle(box: Box, count: int) -> None:
    """Half of the notes, and twice a quarter of them and a kill; in the end each has one vector."""
    worker = box.start()
    texts = [f"Note {n}: the {'queue' if n % 2 else 'cache'} of shop {n} waits for the till." for n in range(count)]
    half, quarter = count // 2, count // 4
    remember(box, *texts[:half])
    left: list[int] = []
    for part in (texts[half:-quarter], texts[-quarter:]):
        remember(box, *part)
        box.kill(worker)
        left.append(len(box.rows("SELECT 1 FROM vectors_due")))
        worker = box.start()
    assert any(left), "it was in the middle"
    assert made(box)["vectors"] == count
    rows = box.rows("SELECT COUNT(*) AS n, COUNT(DISTINCT item_id) AS items, MIN(LENGTH(vector)) AS size FROM vectors")
    assert rows == [{"n": count, "items": count, "size": 256}]


def test_i9_a_kill_in_the_middle_of_embedding_loses_and_doubles_nothing(box: Box) -> None:
    """Killed between batches and within them, again and again."""
    killed_in_the_middle(box, 120)


@pytest.mark.soak
def test_i9_embedding_at_full_size(box: Box) -> None:
    """Four hundred notes."""
    killed_in_the_middle(box, 400)


def test_i16_a_forgotten_vector_is_in_no_file(running: Box) -> None:
    """Not in the table, nor in a free page, the log or a backup of the database."""
    number, other = remember(running, f"The password hint is {CANARY} and nothing else.", "The till is open on Sunday.")
    made(running)
    raw = running.rows("SELECT vector FROM vectors WHERE kind = 'observation' AND item_id = ?", number)[0]["vector"]
    held = [file for file in running.data.rglob("*") if file.is_file() and raw in file.read_bytes()]
    assert held
    running.cli("forget", str(number), "--yes")
    assert [row["item_id"] for row in running.rows("SELECT item_id FROM vectors")] == [other]
    assert [file for file in running.data.rglob("*") if file.is_file() and raw in file.read_bytes()] == []


def test_i14_private_text_is_never_embedded(box: Box, endpoint: Embeddings) -> None:
    """What an endpoint is asked has neither private text nor a secret, and the key goes nowhere else."""
    key = "sk-ant-api03-" + "a1B2" * 20
    box.settings |= {"BACKSTORY_EMBEDDER": "openai", "BACKSTORY_EMBED_URL": endpoint.url, "OPENAI_API_KEY": "k-1"}
    box.start()
    session = {"session_id": "s", "prompt_id": "p"}
    box.hook("UserPromptSubmit", session | {"prompt": f"Mend <private>{CANARY}</private> the basket"})
    run = {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": f"deploy --key {key}"}}
    box.hook("PostToolUse", session | run | {"tool_response": f"<private>{CANARY}</private> deployed"})
    box.hook("Stop", session | {"last_assistant_message": f"The basket is mended. <private>{CANARY}</private>"})
    box.hook("UserPromptSubmit", {"session_id": "s", "prompt_id": "q", "prompt": f"<private>{CANARY}</private>"})
    box.settle()
    made(box)
    assert any("basket" in text for text in endpoint.asked)
    assert not any(CANARY in text or key in text for text in endpoint.asked)
    assert endpoint.keys == {"Bearer k-1"}


def test_an_endpoint_that_fails_leaves_words_and_is_asked_again(box: Box, endpoint: Embeddings) -> None:
    """It is named by status and doctor, does not send the key elsewhere, and when it is back all is embedded."""
    endpoint.status = 302
    box.settings |= {"BACKSTORY_EMBEDDER": "openai", "BACKSTORY_EMBED_URL": endpoint.url}
    box.start()
    remember(box, "The till is open on Sunday.")
    until(lambda: told(box)["problem"], "the failure to be known")
    assert len(endpoint.asked) == 1, "and a redirect is not followed"
    assert told(box)["vectors"] == 0
    assert [item["title"] for item in box.client.get("/api/search", query="till")["items"]]
    assert "answered with 302" in box.cli("status").stdout
    findings = json.loads(box.cli("doctor", "--json", check=False).stdout)["findings"]
    assert [f["name"] for f in findings if "302" in f["says"]] == ["embedder-away"]
    endpoint.status = 200
    assert made(box)["problem"] == ""


def test_a_missing_package_is_named_and_words_go_on(box: Box) -> None:
    """fastembed is not installed here: what is remembered is found by its words."""
    box.settings["BACKSTORY_EMBEDDER"] = "fastembed"
    box.start()
    remember(box, "The till is open on Sunday.")
    until(lambda: told(box)["problem"], "the failure to be known")
    assert "fastembed" in box.cli("status").stdout
    assert box.client.get("/api/search", query="till")["items"]


def test_another_embedder_takes_over_in_a_worker_that_serves(box: Box, endpoint: Embeddings) -> None:
    """The setting is changed and the worker started again: the old vectors stay until the new are all there."""
    worker = box.start()
    remember(box, *(f"Note {n}" for n in range(70)))
    made(box)
    box.stop(worker)
    endpoint.status = 503
    box.settings |= {"BACKSTORY_EMBEDDER": "openai", "BACKSTORY_EMBED_URL": endpoint.url}
    box.start()
    until(lambda: told(box)["problem"], "the failure to be known")
    now = told(box)
    assert (now["embedder"], now["vectors"], now["due"]) == ("static", 70, 70)
    assert now["next"].startswith("openai text-embedding-3-small http")
    endpoint.status = 200
    until(lambda: told(box)["embedder"].startswith("openai"), "the new embedder")
    until(lambda: len(box.rows("SELECT 1 FROM embedders")) == 1, "the old vectors to go")
    assert box.rows("SELECT COUNT(*) AS n, MIN(LENGTH(vector)) AS size FROM vectors") == [{"n": 70, "size": 26}]
    assert told(box)["vectors"] == 70


def test_a_worker_stops_at_once_while_an_endpoint_takes_its_time(box: Box, endpoint: Embeddings) -> None:
    """What it was asked for is asked again by the next worker."""
    endpoint.answers.clear()
    box.settings |= {"BACKSTORY_EMBEDDER": "openai", "BACKSTORY_EMBED_URL": endpoint.url}
    worker = box.start()
    remember(box, "The till is open on Sunday.", "The basket rounds once.")
    until(lambda: endpoint.asked, "the endpoint to be asked")
    began = time.monotonic()
    box.stop(worker)
    assert time.monotonic() - began < 10
    endpoint.answers.set()
    box.start()
    assert made(box)["vectors"] == 2


def test_the_conversation_is_embedded_and_made_anew_on_request(running: Box) -> None:
    """Prompts, turns, chunks, observations and summaries, each once; again with `reindex --vectors`."""
    session = {"session_id": "s", "prompt_id": "p"}
    running.hook("UserPromptSubmit", session | {"prompt": "Why does the basket round twice?"})
    edit = {"file_path": str(running.project / "basket.py"), "old_string": "round(a)", "new_string": "a"}
    running.hook("PostToolUse", session | {"tool_name": "Edit", "tool_use_id": "t", "tool_input": edit})
    running.hook("Stop", session | {"last_assistant_message": "It rounded in two places; now it does once."})
    running.settle()
    kinds = "SELECT kind, COUNT(*) AS n FROM vectors GROUP BY kind"
    every = {"chunk", "observation", "prompt", "summary", "turn"}
    until(lambda: {row["kind"] for row in running.rows(kinds)} == every and not told(running)["due"], "all five kinds")
    before = {row["kind"]: row["n"] for row in running.rows(kinds)}
    first = {row["id"] for row in running.rows("SELECT id FROM vectors")}
    assert "were rebuilt" in running.cli("reindex", "--vectors").stdout
    assert {row["kind"]: row["n"] for row in running.rows(kinds)} == before
    assert not first & {row["id"] for row in running.rows("SELECT id FROM vectors")}


def test_off_makes_none(box: Box) -> None:
    """And what was made before is still there when it is on again."""
    box.settings["BACKSTORY_EMBEDDER"] = "off"
    worker = box.start()
    remember(box, "The till is open on Sunday.")
    assert told(box) == {"embedder": "", "next": "", "vectors": 0, "due": 0, "problem": ""}
    assert "numpy" not in maps(worker.pid)
    box.stop(worker)
    box.settings["BACKSTORY_EMBEDDER"] = "static"
    box.start()
    assert made(box)["vectors"] == 1


def test_an_imported_conversation_is_found_by_its_meaning(
    box: Box, engine: str, request: pytest.FixtureRequest
) -> None:
    """On both engines, soon, and without a word of it: the session, and the turn by its number."""
    if engine == "postgres":
        box.settings["BACKSTORY_DATABASE_URL"] = request.getfixturevalue("database_url")
    box.start()
    until(lambda: told(box)["embedder"], "the embedder")
    time.sleep(0.5)  # it has looked, found nothing, and waits to be told
    turn = {"session": "s", "number": 4, "role": "user", "at": "2026-01-02T03:04:05Z", "project": "shop"}
    box.client.post("/api/import/turns", {"turns": [turn | {"text": "Nobody can sign in after a password reset"}]})
    made(box)
    for kind in ("sessions", "turns"):
        (item,) = box.client.get("/api/search", query="login trouble", kind=kind)["items"]
        assert item["session"] == "s" and item.get("turn", 4) == 4
