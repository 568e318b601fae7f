"""Bench: how many generated secrets are redacted, and what of recorded transcripts is redacted wrongly."""

from __future__ import annotations

import argparse
import difflib
import gzip
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from secret_samples import samples

from backstory import prefilter, privacy

LARGE = 128 << 10  # bytes; larger payloads are looked at by the worker
MARK = re.compile(r"\[redacted:([a-z-]+)\]")


def transcripts(data: Path) -> Iterator[dict[str, Any]]:
    """The messages of every transcript below a folder."""
    for file in sorted(data.rglob("*.jsonl*")):
        raw = file.read_bytes()
        for line in (gzip.decompress(raw) if file.suffix == ".gz" else raw).splitlines():
            entry = json.loads(line)
            if isinstance(entry.get("message"), dict):
                yield entry["message"]


def payloads(data: Path) -> Iterator[bytes]:
    """Every tool use as the hook would be told of it."""
    asked: dict[str, Any] = {}
    for message in transcripts(data):
        content = message.get("content")
        for block in content if isinstance(content, list) else []:
            if block.get("type") == "tool_use":
                asked[block["id"]] = block
            elif block.get("type") == "tool_result" and block.get("tool_use_id") in asked:
                use = asked.pop(block["tool_use_id"])
                told = {"tool_name": use["name"], "tool_input": use["input"], "tool_response": block.get("content")}
                yield json.dumps(told, ensure_ascii=False).encode(errors="replace")


def texts(value: Any) -> Iterator[str]:
    """Every text in a message."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)


def redactions(before: str, after: str) -> Iterator[tuple[str, str, str]]:
    """What was redacted: its kind, the text that is gone, and its line."""
    old, new = before.split("\n"), after.split("\n")
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            kinds = "+".join(sorted(set(MARK.findall("\n".join(new[j1:j2])))))
            yield kinds, "\n".join(old[i1:i2]), "\n".join(new[j1:j2])


def wrongly(data: Path, show: bool) -> None:
    """What of the transcripts is redacted. They hold no real secrets, so each line is read and judged by hand."""
    messages = lines = changed = 0
    kinds: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for message in transcripts(data):
        messages += 1
        touched = False
        for before, after in zip(texts(message), texts(privacy.strip_json(message)), strict=True):
            lines += before.count("\n") + 1
            if before != after and "[redacted:" in after:
                touched = True
                for kind, old, new in redactions(before, after):
                    kinds[kind] += old.count("\n") + 1
                    seen[f"{kind}: {old.strip()[:300]}\n    -> {new.strip()[:300]}"] += 1
        changed += touched
    count = sum(kinds.values())
    print(f"{messages} messages, {lines} lines of text:")
    print(f"  {count} lines redacted ({count / lines:.4%}) in {changed} messages")
    for kind, number in kinds.most_common():
        print(f"  {number:6} {kind}")
    for what, number in sorted(seen.items()) if show else ():
        print(f"{number} x {what}")


def look(data: Path) -> None:
    """How many tool uses the hook's cheap look suspects, and what it costs."""
    count = suspected = large = 0
    size = spent = 0.0
    why: Counter[str] = Counter()
    for payload in payloads(data):
        if len(payload) > LARGE:
            large += 1
            continue
        count += 1
        size += len(payload)
        began = time.perf_counter()
        hints = prefilter.hints(payload)
        spent += time.perf_counter() - began
        suspected += bool(hints)
        why.update(hints)
    print(f"{count} tool payloads up to {LARGE >> 10} KB ({large} larger): {suspected} are suspected and stripped,")
    print(f"  {spent / count * 1e6:.0f} us a look, {spent / size * 1e9:.1f} ns a byte; by {why.most_common(12)}")


def caught(count: int, seed: int, show: bool) -> None:
    """How many generated secrets are redacted, and whether the cheap look saw each that is."""
    total: Counter[str] = Counter()
    leaked: Counter[str] = Counter()
    unseen = 0
    for sample in samples(count, seed):
        raw = sample.text.encode()
        clean = privacy.strip_bytes(raw)
        total[sample.kind] += 1
        unseen += clean != raw and not prefilter.suspicious(raw)
        if sample.leaks(clean.decode()):
            leaked[sample.kind] += 1
            if show:
                print(f"{sample.kind}, {sample.where}: {sample.text[:200]!r}")
    number = sum(leaked.values())
    print(f"{count} generated secrets of {len(total)} kinds, seed {seed}: {1 - number / count:.2%} redacted,")
    print(f"  {unseen} redacted that the cheap look had not seen; left: {leaked.most_common(8)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder of Claude Code transcripts (.jsonl or .jsonl.gz)")
    parser.add_argument("--count", type=int, default=10_000, help="how many secrets to generate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print every redaction of the transcripts, and every leak")
    given = parser.parse_args()
    caught(given.count, given.seed, given.show)
    if given.data:
        look(given.data)
        wrongly(given.data, given.show)


if __name__ == "__main__":
    main()
