"""Kept transcripts: a conversation is resumed after its file is gone. The real client, SDK, hook and worker."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import shared_box
from box import Box, until
from claude import Claude, binary
from endpoint import Endpoint, Kind, Request, Step, text
from transcripts import Script

from backstory import transcript_gate
from backstory.sessions.kept import entries, listed, restore_transcript
from backstory.sessions.transcript_store import TranscriptStore

real = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")
SECRET = "the-moon-is-a-cheese"


@pytest.fixture
def shop(box: Box, monkeypatch: pytest.MonkeyPatch) -> Box:
    """A repository with a remote, backstory installed, and this process on the same machine."""
    monkeypatch.setenv("HOME", str(box.home))
    subprocess.run(["git", "init", "-q"], cwd=box.project, check=True)
    subprocess.run(["git", "remote", "add", "origin", "git@example.com:team/shop.git"], cwd=box.project, check=True)
    box.cli("install", "--agent", "claude-code")
    return box


def settings(box: Box) -> dict[str, str]:
    return {name: value for name, value in box.env.items() if name.startswith("BACKSTORY_")}


def talk(shop: Box, prompt: str, reply: Step, *options: str, cwd: Path | None = None) -> tuple[str, Request]:
    """One prompt to the real client; the session's id, and what the model was sent."""
    with Endpoint([reply]) as endpoint:
        run = Claude(shop.home, cwd or shop.project, endpoint, env=settings(shop)).run(prompt, *options)
        return run.session_id, endpoint.of(Kind.MAIN)[-1]


def transcript(shop: Box, session_id: str) -> Path:
    (path,) = (shop.home / ".claude" / "projects").glob(f"*/{session_id}.jsonl")
    return path


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def clean_lines_of(path: Path) -> list[Any]:
    """The same without the context that our hook has added, which is never stored."""
    return [transcript_gate.clean(line) for line in lines_of(path)]


def kept_of(box: Box, session_id: str, subpath: str = "") -> list[Any]:
    """What the worker has of a transcript."""
    rows = [row for row in listed(box.client, session_id=session_id) if row["subpath"] == subpath]
    if not rows:
        return []
    key = {"project_key": rows[0]["project_key"], "session_id": session_id, "subpath": subpath}
    return list(entries(box.client, key))


def write(box: Box, script: Script) -> Path:
    folder = "".join(char if char.isalnum() else "-" for char in script.cwd)
    return script.write(box.home / ".claude" / "projects" / folder)


def conversation(box: Box, number: int = 0) -> Script:
    script = Script(session=f"{number:08x}-2222-3333-4444-555555555555", cwd=str(box.project))
    script.prompt(f"Ask {number}.")
    script.lines.append({"type": "mode", "mode": "normal", "sessionId": script.session})
    script.says("Let me see.", stop="tool_use")
    script.uses("Bash", {"command": "ls"}, "toolu_01AbCdEfGhIj")
    script.answers("toolu_01AbCdEfGhIj", "a.txt")
    script.says(f"Answer {number}.")
    return script


@real
def test_a_session_is_resumed_under_its_id_after_its_file_is_gone(shop: Box) -> None:
    """Kept by the command, followed as it grows, deleted, restored, resumed by the client, and followed again."""
    session_id, _ = talk(shop, "The code word is heliotrope.", text("Understood."))
    assert "1 transcript is kept" in shop.cli("sessions", "keep", session_id).stdout
    assert kept_of(shop, session_id) == clean_lines_of(transcript(shop, session_id))
    talk(shop, "And the number is 4711.", text("Noted."), f"--resume={session_id}")
    file = transcript(shop, session_id)
    until(lambda: kept_of(shop, session_id) == clean_lines_of(file), "the transcript to be followed")
    before = clean_lines_of(file)

    shutil.rmtree(file.parent)
    with Endpoint([]) as endpoint:
        gone = Claude(shop.home, shop.project, endpoint, env=settings(shop)).run(
            "Go on.", f"--resume={session_id}", check=False
        )
    assert "No conversation found" in gone.stdout + gone.stderr
    assert restore_transcript(session_id[:13], client=shop.client) == file
    assert lines_of(file) == before
    again, request = talk(shop, "What was it?", text("heliotrope, 4711"), f"--resume={session_id}")
    assert again == session_id
    assert "heliotrope" in json.dumps(request.body) and "4711" in json.dumps(request.body)
    after = clean_lines_of(transcript(shop, session_id))
    assert after[: len(before)] == before and len(after) > len(before)
    until(lambda: kept_of(shop, session_id) == after, "the restored transcript to be followed, nothing doubled")
    shop.settle()
    assert [row["prompt"] for row in shop.rows("SELECT prompt FROM user_prompts ORDER BY prompt_number")] == [
        "The code word is heliotrope.",
        "And the number is 4711.",
        "What was it?",
    ]


PROGRAM = """
import asyncio, os, sys
from claude_agent_sdk import ClaudeAgentOptions, query
from backstory.sessions.transcript_store import TranscriptStore

async def main(cwd, prompt, session_id=None):
    options = ClaudeAgentOptions(cwd=cwd, resume=session_id, session_store=TranscriptStore(cwd),
                                 setting_sources=[], permission_mode="dontAsk")
    async for message in query(prompt=prompt, options=options):
        assert type(message).__name__ != "MirrorErrorMessage", message
        last = message
    print(last.session_id)

asyncio.run(main(*sys.argv[1:]))
"""


def program(shop: Box, reply: str, *words: str) -> tuple[str, Request]:
    """A program that uses the SDK with our store."""
    with Endpoint([reply]) as endpoint:
        env = Claude(shop.home, shop.project, endpoint, env=settings(shop)).environment()
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words], env=env, capture_output=True, text=True, timeout=120
        )
        assert run.returncode == 0, run.stderr
        return run.stdout.strip(), endpoint.of(Kind.MAIN)[-1]


@real
def test_a_program_resumes_from_another_checkout_of_the_repository(shop: Box) -> None:
    """The store goes by the repository, so that neither the file nor the directory is needed."""
    shop.cli("start")
    session_id, _ = program(shop, "Understood.", str(shop.project), "The code word is heliotrope.")
    assert kept_of(shop, session_id)
    (row,) = listed(shop.client, session_id=session_id)
    assert (row["project_key"], row["source"]) == ("example.com/team/shop", "sdk")
    shutil.rmtree(shop.home / ".claude" / "projects")
    other = shop.root / "elsewhere"
    shutil.copytree(shop.project, other)
    before = len(kept_of(shop, session_id))
    again, request = program(shop, "It was heliotrope.", str(other), "What was it?", session_id)
    assert again == session_id
    assert "heliotrope" in json.dumps(request.body)
    assert len(kept_of(shop, session_id)) > before


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def memory(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Box]:
    """A worker over each engine, for all tests that ask. Each has sessions of its own."""
    box = Box(tmp_path_factory.mktemp("memory"))
    if request.param == "postgres":
        box.settings["BACKSTORY_DATABASE_URL"] = request.getfixturevalue("postgres").make()
    yield from shared_box.started(box)


def test_the_sdks_conformance_suite_passes(memory: Box) -> None:
    from claude_agent_sdk.testing import run_session_store_conformance

    made = 0

    def fresh() -> TranscriptStore:
        nonlocal made
        made += 1
        for row in list(listed(memory.client)):
            about = {name: row[name] for name in ("project_key", "subpath", "agent")}
            memory.client.delete("/api/transcripts", session_id=row["content_session_id"], **about)
        return TranscriptStore(memory.project, memory.client)

    asyncio.run(run_session_store_conformance(fresh))
    assert made > 10


def test_the_sdks_functions_work_on_a_kept_transcript(running: Box) -> None:
    """One that the worker copied from the file: list, read, rename, fork, delete."""
    import claude_agent_sdk as sdk

    script = conversation(running)
    path = write(running, script)
    child = Script(session=path.stem, cwd=str(running.project), prompt_id="p0")
    child.user("look", isSidechain=True, agentId="a39a")
    child.write(path.with_suffix("") / "subagents", "agent-a39a.jsonl")
    running.cli("sessions", "keep", "--all")
    store, here = TranscriptStore(running.project, running.client), str(running.project)

    async def use() -> None:
        (info,) = await sdk.list_sessions_from_store(store, here)
        assert (info.session_id, info.first_prompt) == (script.session, "Ask 0.")
        said = await sdk.get_session_messages_from_store(store, script.session, here)
        assert [message.uuid for message in said] == [line["uuid"] for line in script.lines if "uuid" in line]
        assert await sdk.list_subagents_from_store(store, script.session, here) == ["a39a"]
        await sdk.rename_session_via_store(store, script.session, "About asking", here)
        again = await sdk.get_session_info_from_store(store, script.session, here)
        assert again is not None and again.custom_title == "About asking"
        fork = await sdk.fork_session_via_store(store, script.session, here)
        assert len(await sdk.list_sessions_from_store(store, here)) == 2
        await sdk.delete_session_via_store(store, fork.session_id, here)
        assert [each.session_id for each in await sdk.list_sessions_from_store(store, here)] == [script.session]

    asyncio.run(use())


def test_all_of_a_machine_is_kept_with_subagents_and_written_back(memory: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged lines are counted and skipped, a second time adds nothing, and what is restored is the same."""
    monkeypatch.setenv("HOME", str(memory.home))
    shutil.rmtree(memory.home / ".claude" / "projects", ignore_errors=True)
    paths = [write(memory, conversation(memory, number)) for number in range(10, 13)]
    child = Script(session=paths[0].stem, cwd=str(memory.project), prompt_id="p0")
    child.user("look", isSidechain=True, agentId="a39a")
    child.says("Seen.", isSidechain=True, agentId="a39a")
    part = child.write(paths[0].with_suffix("") / "subagents", "agent-a39a.jsonl")
    part.with_suffix(".meta.json").write_text('{"agentType": "explore"}')
    with paths[1].open("ab") as file:
        file.write(b'{"type":"user","mess\n')
    told = json.loads(memory.cli("sessions", "keep", "--all", "--json").stdout)
    assert told == {"kept": 3, "entries": 6 * 3 + 3, "damaged": 1, "not_kept": 0, "reasons": {}}
    told = json.loads(memory.cli("sessions", "keep", "--all", "--json").stdout)
    assert (told["kept"], told["entries"]) == (3, 0)
    files = {path: lines_of(path) for path in (paths[0], paths[2], part)}
    shutil.rmtree(memory.home / ".claude" / "projects")
    for path in paths:
        assert restore_transcript(path.stem, client=memory.client) == path
    assert {path: lines_of(path) for path in files} == files
    assert json.loads(part.with_suffix(".meta.json").read_text()) == {"agentType": "explore"}
    assert len(lines_of(paths[1])) == 6
    assert restore_transcript("99999999", client=memory.client) is None
    # In another directory the agent looks elsewhere.
    moved = restore_transcript(paths[0].stem, cwd=str(memory.home), client=memory.client)
    assert moved is not None and moved.parent != paths[0].parent
    assert lines_of(moved) == files[paths[0]]


def has_copied(box: Box, wanted: int, asked: Future[Any]) -> bool:
    return len(box.rows("SELECT 1 FROM transcript_entries")) >= wanted or asked.done()


def killed_while_it_copies(box: Box, prompts: int, shares: tuple[float, ...]) -> None:
    """Kill the worker when it has this share of the lines; the next one goes on from there."""
    script = conversation(box)
    for number in range(prompts):
        script.prompt(f"Ask {number} {'about it ' * 20}")
        script.lines.append({"type": "mode", "mode": "normal", "sessionId": script.session})
    path = write(box, script)
    for share in shares:
        worker = box.start()
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(box.client.post, "/api/transcripts", {"path": str(path)})
            wanted = int(share * len(script.lines))
            until(functools.partial(has_copied, box, wanted, asked))
            box.kill(worker)
            asked.exception()
    box.start()
    box.cli("sessions", "keep", script.session)  # beside the worker, which goes on by itself
    assert kept_of(box, script.session) == script.lines


def test_i9_kill_9_while_a_transcript_is_copied_neither_loses_nor_doubles(box: Box) -> None:
    """What was copied stays, and nothing is there twice."""
    killed_while_it_copies(box, 1000, (0.2, 0.6))


@pytest.mark.soak
def test_i9_a_copy_at_full_size(box: Box) -> None:
    """Six thousand lines, three kills."""
    killed_while_it_copies(box, 3000, (0.1, 0.4, 0.7))


def test_a_project_is_kept_and_what_cannot_be_is_said(running: Box) -> None:
    path = write(running, conversation(running))
    running.cli("import", "claude-code", str(path))
    running.client.post("/api/sessions/init", {"sessionId": "nofile", "project": "shop", "userPrompt": "hello"})
    told = json.loads(running.cli("sessions", "keep", "--project", "shop", "--json").stdout)
    assert (told["kept"], told["not_kept"]) == (1, 1)
    assert "not on this machine" in next(iter(told["reasons"].values()))
    refused = running.cli("sessions", "keep", "nofile", check=False)
    assert refused.returncode == 1 and "not on this machine" in refused.stdout
    assert running.cli("sessions", "keep", check=False).returncode == 1
    assert "no session nobody" in running.cli("sessions", "keep", "nobody", check=False).stdout
    outside = running.root / "x.jsonl"
    outside.write_bytes(path.read_bytes())
    assert running.http("POST", "/api/transcripts", {"path": str(outside)}).status == 404


def test_every_transcript_is_kept_if_the_user_says_so(box: Box) -> None:
    """Those that are there, and those that come. Excluded projects are not."""
    box.settings["BACKSTORY_KEEP_TRANSCRIPTS"] = "all"
    other = box.root / "secret-project"
    other.mkdir()
    box.settings["BACKSTORY_EXCLUDE_PROJECTS"] = str(other)
    first = write(box, conversation(box, 1))
    excluded = conversation(box, 2)
    excluded.cwd = str(other)
    for line in excluded.lines:
        line["cwd"] = str(other)
    write(box, excluded)
    box.shim  # noqa: B018 - hooks are called below
    box.start()
    until(lambda: kept_of(box, first.stem) == lines_of(first), "the transcript that was there")
    script = conversation(box, 3)
    path = write(box, script)
    box.hook("Stop", {"session_id": script.session, "transcript_path": str(path)})
    until(lambda: kept_of(box, script.session) == script.lines, "the new transcript")
    script.prompt("More.")
    write(box, script)
    box.hook("Stop", {"session_id": script.session, "transcript_path": str(path)})
    until(lambda: kept_of(box, script.session) == script.lines, "what was added")
    assert {row["content_session_id"] for row in listed(box.client)} == {first.stem, script.session}


def test_i14_what_is_private_is_not_kept(running: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a private text nor a round whose prompt is private; by the file and by a program, and in pieces."""
    monkeypatch.setenv("HOME", str(running.home))
    script = Script(session="11111111-2222-3333-4444-555555555555", cwd=str(running.project))
    script.prompt(f"Mind <private>{SECRET}</private> this.")
    script.says("Yes.")
    script.prompt(f"<private>{SECRET}</private>")
    path = write(running, script)
    running.cli("sessions", "keep", "--all")
    store, key = TranscriptStore(running.project, running.client), {"project_key": "p", "session_id": "program"}
    asyncio.run(store.append(key, script.lines))
    more = script.lines[:]
    script.uses("Bash", {"command": SECRET}, "toolu_01AbCdEfGhIj")
    script.answers("toolu_01AbCdEfGhIj", SECRET, {"stdout": SECRET})
    script.says(SECRET)
    script.prompt("Open again.")
    write(running, script)
    running.cli("sessions", "keep", "--all")
    asyncio.run(store.append(key, script.lines[len(more) :]))
    for made in (kept_of(running, script.session), asyncio.run(store.load(key)) or []):
        assert SECRET not in json.dumps(made)
        assert [entry["uuid"] for entry in made] == [line["uuid"] for line in script.lines]
        assert made[0]["message"]["content"] == "Mind  this."
        assert made[-1]["message"]["content"] == "Open again."
    running.cli("export", "--output", str(running.root / "export.jsonl"))
    assert SECRET not in (running.root / "export.jsonl").read_text()
    # A restored file tells the same: the private round stays private.
    path.unlink()
    assert restore_transcript(script.session, client=running.client) == path
    running.cli("import", "claude-code", str(path))
    prompts = running.rows("SELECT prompt, is_private FROM user_prompts ORDER BY prompt_number")
    assert [row["prompt"] for row in prompts] == ["Mind  this.", None, "Open again."]
    assert [row["is_private"] for row in prompts] == [0, 1, 0]


def test_i16_a_forgotten_session_is_not_kept_again(memory: Box) -> None:
    path = write(memory, conversation(memory, 20))
    before = memory.rows("SELECT id FROM transcript_entries ORDER BY id")
    memory.cli("import", "claude-code", str(path))
    memory.cli("sessions", "keep", path.stem)
    assert "1 transcript." in memory.cli("forget", "--matching", "Answer 20").stdout
    assert kept_of(memory, path.stem)
    assert "1 transcript." in memory.cli("forget", "--matching", "Answer 20", "--yes").stdout
    assert kept_of(memory, path.stem) == []
    refused = memory.cli("sessions", "keep", path.stem, check=False)
    assert refused.returncode == 1 and "forgotten" in refused.stdout
    store, key = TranscriptStore(memory.project, memory.client), {"project_key": "p", "session_id": "copy"}
    asyncio.run(store.append(key, lines_of(path)))
    assert asyncio.run(store.load(key)) is None
    assert memory.rows("SELECT id FROM transcript_entries ORDER BY id") == before


def test_the_doctor_warns_of_what_is_not_kept(running: Box) -> None:
    paths = [write(running, conversation(running, number)) for number in range(2)]
    for path in paths:
        os.utime(path, (time.time() - 25 * 86_400,) * 2)

    def told() -> dict[str, str]:
        found = json.loads(running.cli("doctor", "--json", check=False).stdout)["findings"]
        return {finding["name"]: finding["says"] + finding["do"] for finding in found}

    assert "2 transcripts that are not kept" in told()["transcripts-expire"]
    assert "sessions keep --all" in told()["transcripts-expire"]
    running.cli("sessions", "keep", paths[0].stem)
    assert "1 transcript that is not kept" in told()["transcripts-expire"]
    running.cli("sessions", "keep", "--all")
    assert "transcripts-expire" not in told()
