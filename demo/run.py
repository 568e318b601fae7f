"""The demo: a recorded Claude Code session goes through hook, worker and memory, and the next session is told.

It runs beside anything that is installed: with a home and a data directory of its own, in the folder `.demo`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

HERE = Path(__file__).parent
PLACE = HERE.parent / ".demo"
COMMAND = Path(sys.executable).parent / "backstory"
ENV = {
    "PATH": os.environ.get("PATH", os.defpath),
    "LANG": "C.UTF-8",
    "HOME": str(PLACE),
    "BACKSTORY_PORT": "0",
}
SHIM = PLACE / ".backstory" / "bin" / "backstory-hook"


def backstory(*words: str) -> str:
    run = subprocess.run([COMMAND, *words], env=ENV, cwd=PLACE, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"`backstory {' '.join(words)}` failed:\n{run.stdout}{run.stderr}")
    return run.stdout.strip()


def put(words: str) -> None:
    """Print a text, wrapped between words."""
    for line in words.splitlines():
        print(textwrap.fill(line, 80, break_long_words=False, break_on_hyphens=False))


def hook(event: str, payload: dict[str, object]) -> str:
    """What Claude Code does with each event."""
    raw = json.dumps(payload).encode()
    run = subprocess.run([SHIM, "claude-code", event], input=raw, env=ENV, capture_output=True, check=True)
    return run.stdout.decode()


def main() -> None:
    """Begin afresh, replay, wait until it is remembered, and show what the next session gets."""
    if PLACE.exists():
        subprocess.run([COMMAND, "stop"], env=ENV, capture_output=True)
        shutil.rmtree(PLACE)
    PLACE.mkdir()
    print("$ backstory install --agent claude-code")
    print(backstory("install", "--agent", "claude-code"))

    calls = [json.loads(line) for line in (HERE / "session.jsonl").read_text("utf-8").splitlines()]
    put(f"\nA recorded session of two prompts, {len(calls)} hook calls, each through the hook as Claude Code runs it:")
    started = time.perf_counter()
    for call in calls:
        hook(call["event"], call["payload"])
        if call["event"] == "UserPromptSubmit":
            put(f"  > {call['payload']['prompt']}")
    print(f"  {(time.perf_counter() - started) * 1000 / len(calls):.0f} ms a call, starting the worker included")

    for _ in range(300):
        queue = json.loads(backstory("status", "--json"))["health"]["queue"]
        if not queue["queued"] and not queue["leased"]:
            break
        time.sleep(0.1)
    else:
        sys.exit("The events were not observed within 30 s; see .demo/.backstory/worker.log.")

    answer = hook("SessionStart", {"session_id": "next", "cwd": "/home/dev/shop", "source": "startup"})
    told = json.loads(answer)["hookSpecificOutput"]["additionalContext"]
    print("\nThe next session in that project is told this before its first prompt:\n")
    put(told)

    status = json.loads(backstory("status", "--json"))
    link = backstory("open", "--print")
    put(f"\nThe worker is at {status['address']} and stays up for you to look around; `make demo-stop` ends it.")
    put(f"This link lets a browser in, once, within two minutes (`make demo-open` gives another):\n{link}")


if __name__ == "__main__":
    if sys.argv[1:] and not PLACE.exists():
        print("The demo is not there; `make demo` makes it.")
    elif sys.argv[1:] == ["stop"]:
        print(backstory("stop"))
    elif sys.argv[1:] == ["open"]:
        print(f"This link lets a browser in, once, within two minutes: {backstory('open', '--print')}")
    else:
        main()
