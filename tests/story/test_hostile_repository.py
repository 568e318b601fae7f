"""A checkout that is out to harm whoever opens a session in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from box import Box, until

HOOKS = ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman")
#: Every setting of git that names a program, or a file with more settings. TRAP is the program.
CONFIG = """
[core]
	fsmonitor = TRAP fsmonitor
	hooksPath = HOOKS
	sshCommand = TRAP ssh
	gitProxy = TRAP proxy
	pager = TRAP pager
	editor = TRAP editor
	askPass = TRAP askpass
	alternateRefsCommand = TRAP alternate
	attributesFile = ATTRIBUTES
[filter "trap"]
	clean = TRAP clean
	smudge = TRAP smudge
	required = true
[filter "long"]
	process = TRAP process
[diff]
	external = TRAP external
[diff "trap"]
	textconv = TRAP textconv
	command = TRAP difference
[merge "trap"]
	driver = TRAP driver
[interactive]
	diffFilter = TRAP interactive
[sequence]
	editor = TRAP sequence
[credential]
	helper = !TRAP credential
[alias]
	status = !TRAP alias
	rev-parse = !TRAP alias
[gpg]
	program = TRAP gpg
[gpg "ssh"]
	defaultKeyCommand = TRAP key
[log]
	showSignature = true
[pager]
	status = TRAP pager-of-status
[trace2]
	eventTarget = TRACE
[uploadpack]
	packObjectsHook = TRAP pack
[submodule "lib"]
	update = !TRAP submodule
[protocol "ext"]
	allow = always
[remote "origin"]
	url = ext::TRAP fetch
	uploadpack = TRAP upload
	promisor = true
[extensions]
	partialClone = origin
[include]
	path = MORE
[includeIf "gitdir:**"]
	path = MORE
"""


def arm(box: Box, git_dir: Path) -> None:
    """Put into a git directory whatever could make git run something."""
    traps = box.root / "traps"
    (traps / "hooks").mkdir(parents=True, exist_ok=True)
    trap = traps / "trap"
    trap.write_text(f'#!/bin/sh\ntouch "{box.root}/sprung-$1"\ncat\n')
    trap.chmod(0o755)
    for name in HOOKS:
        for hooks in (traps / "hooks", git_dir / "hooks"):
            hooks.mkdir(exist_ok=True)
            (hooks / name).write_text(f"#!/bin/sh\n{trap} hook-{name}\n")
            (hooks / name).chmod(0o755)
    (traps / "more").write_text(f'[filter "more"]\n\tclean = {trap} included\n')
    attributes = "*.py filter=trap diff=trap merge=trap\n*.txt filter=more\n*.bin filter=long\n"
    (traps / "attributes").write_text(attributes)
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info" / "attributes").write_text(attributes)
    names = {"TRAP": trap, "HOOKS": traps / "hooks", "ATTRIBUTES": traps / "attributes", "MORE": traps / "more"}
    text = CONFIG.replace("TRACE", str(box.root / "sprung-trace"))
    for word, path in names.items():
        text = text.replace(word, str(path))
    with (git_dir / "config").open("a") as config:
        config.write(text)


def git(where: Path, *words: str, check: bool = True) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    env = {"PATH": os.environ["PATH"], "HOME": str(where), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *who, *words], cwd=where, env=env, check=check, capture_output=True, timeout=120)


def sprung(box: Box) -> list[str]:
    return sorted(file.name for file in box.root.glob("sprung-*"))


def children(pid: int) -> list[str]:
    """The processes that a process has started and that are still there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(process.name)
        except (OSError, ValueError):
            continue
    return found


def hostile_checkout(box: Box, kind: str) -> Path:
    """An armed checkout of its own, with changes; where the session is."""
    root = here = box.root / kind
    root.mkdir()
    git(root, "init", "-q")
    for name in ("cart.py", "notes.txt", "blob.bin"):
        (root / name).write_text("one\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    git_dir = root / ".git"
    if kind == "worktree":
        here = box.root / "tree"
        git(root, "worktree", "add", "-q", str(here))
    elif kind == "bare inside":
        here = root / "docs"
        shutil.copytree(root / ".git", here)
        git(root, "config", "--file", "docs/config", "core.worktree", str(root))
        git_dir = here
    arm(box, git_dir)
    for name in ("cart.py", "notes.txt", "blob.bin"):
        ((root if kind == "bare inside" else here) / name).write_text(
            "two\n"
        )  # as long as before, so that git reads it
    return here


def test_a_session_in_a_hostile_checkout_runs_nothing(box: Box) -> None:
    """Not at its start, not when it is asked what it would be told, and not while it works."""
    worker = box.start()
    for kind in ("plain", "worktree", "bare inside"):
        here = hostile_checkout(box, kind)
        runs_nothing(box, here, worker.pid)
        git(here, "status", check=False)
        assert {"sprung-clean", "sprung-included"} <= set(sprung(box)), f"the traps were not armed: {kind}"
        for file in box.root.glob("sprung-*"):
            file.unlink()


def runs_nothing(box: Box, here: Path, worker: int) -> None:
    """A session there, with all that looks at its directory."""
    # On a busy machine an agent may have been told nothing: it does not wait.
    begin = {"source": "startup", "cwd": str(here)}
    until(lambda: box.hook("SessionStart", begin | {"session_id": os.urandom(4).hex()}).stdout, "a context")
    common = {"session_id": here.name, "cwd": str(here)}
    box.hook("UserPromptSubmit", common | {"prompt": "Please change cart.py"})
    given = {"file_path": str(here / "cart.py"), "content": "two\n"}
    box.hook(
        "PostToolUse", common | {"tool_name": "Write", "tool_use_id": "t", "tool_input": given, "tool_response": {}}
    )
    box.hook("Stop", common | {"last_assistant_message": "Done."})
    box.settle()
    assert box.http("GET", f"/api/context/inject?cwd={quote(str(here))}").status == 200
    box.cli("context", cwd=here)
    box.cli("doctor", cwd=here, check=False)
    assert children(worker) == [], here
    assert sprung(box) == [], here


#: What looks at a working directory, with little memory; it says how far it came.
LOOK = """
import asyncio, resource, sys
from pathlib import Path
from backstory import project
from backstory.agents.claude_code.settings import read_settings
from backstory.agents.claude_code.transcript_files import last_message
from backstory.file_digests import digest
from backstory.recall import worktree
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for path in sys.argv[1:]:
    found = project.find(path)
    assert len(found.key) < 4096 and len(found.branch or "") < 256
    asyncio.run(worktree.changed_files(path))
    for file in ("cart.py", "talk.jsonl"):
        digest(Path(path, file))
    last_message(path + "/talk.jsonl", (Path(path),))
    read_settings(Path(path, ".mcp.json"))
    print(path, flush=True)
"""
IN_GIT = (".git", ".git/HEAD", ".git/config", ".git/index", ".git/packed-refs", ".git/commondir", ".git/logs/HEAD")
FILES = (*IN_GIT, "cart.py", "talk.jsonl", ".mcp.json")


def put(what: str, file: Path) -> None:
    """Something in the place of a file that is not what it should be."""
    if file.is_dir():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(file)
    elif what == "zeros":
        file.symlink_to("/dev/zero")
    elif what == "random":
        file.symlink_to("/dev/urandom")
    elif what == "directory":
        file.mkdir()
    elif what == "loop":
        file.symlink_to(file.name)
    elif what == "closed":
        file.touch(0o000)
    else:
        file.write_bytes({"huge": b"gitdir: ", "lines": b"ref: refs/heads/\n[remote]\n" * 200_000}[what])
        if what == "huge":
            os.truncate(file, 1 << 40)


def test_no_file_in_a_checkout_holds_anybody_up(tmp_path: Path) -> None:
    """A pipe, a device, a link to itself or a file without an end: nobody waits for it, or reads it to the end."""
    whole = tmp_path / "whole"
    whole.mkdir()
    git(whole, "init", "-q", "--template=")  # without the sample hooks, which are most of the files to copy
    for name in ("cart.py", "talk.jsonl"):
        (whole / name).write_text("{}\n")
    git(whole, "add", "-A")
    git(whole, "commit", "-qm", "one")
    places = []
    for number, what in enumerate(("pipe", "zeros", "random", "directory", "loop", "closed", "huge", "lines")):
        for name in FILES:
            places.append(str(tmp_path / f"{number}" / name.replace("/", "-")))
            shutil.copytree(whole, places[-1])
            put(what, Path(places[-1], name))
    ran = subprocess.run([sys.executable, "-c", LOOK, *places], capture_output=True, text=True, timeout=100)
    assert ran.stdout.split() == places, ran.stderr
