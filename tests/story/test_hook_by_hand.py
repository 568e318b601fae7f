"""The hook, called by a person or with something that is no event."""

from __future__ import annotations

import subprocess
from pathlib import Path

from box import COMMAND, Box, until

#: What no agent sends.
NO_EVENTS = (b"", b" \n", b"garbage", b'{"cut": ', b"[1]", b"\xff\xfe")


def called(box: Box, program: Path, *words: str, given: bytes = b"") -> tuple[int, bytes, bytes]:
    run = subprocess.run([program, *words], input=given, capture_output=True, env=box.env, timeout=60)
    return run.returncode, run.stdout, run.stderr


def test_a_hook_that_is_called_by_hand_leaves_nothing(running: Box) -> None:
    """`backstory hook` says how it is used. What is no event of an agent is not kept, with and without a worker: no
    worker would ever take it, and doctor would name it for ever. The exit code is 0 whoever calls."""
    shim = running.shim
    for is_up in (True, False):
        if not is_up:
            running.stop(running.processes[0])
            shim.with_name("backstory-worker").write_text("#!/bin/sh\nexit 1\n")
        for words in ((), ("claude-code",), ("nobody", "Stop"), ("--nonsense",)):
            code, out, err = called(running, COMMAND, "hook", *words, given=b'{"session_id": "x"}')
            assert (code, out) == (0, b""), words
            assert b"`backstory hook AGENT EVENT` reads" in err and err.count(b"\n") == 2, words
        for given in NO_EVENTS:
            for event in ("Stop", "SessionStart", "Nothing"):
                code, _, err = called(running, shim, "claude-code", event, given=given)
                assert (code, err) == (0, b""), (event, given)
            code, _, err = called(running, COMMAND, "hook", "claude-code", "Stop", given=given)
            assert (code, err) == (0, b""), given
        assert called(running, shim, "nobody", "Stop", given=b'{"session_id": "x"}') == (0, b"", b"")
        assert called(running, shim) == (0, b"", b"")
    running.start()
    until(lambda: not running.spooled(), "the spool to be read")
    assert not (running.data / "spool" / "rejected").exists()
    assert running.rows("SELECT 1 FROM sdk_sessions") == []
