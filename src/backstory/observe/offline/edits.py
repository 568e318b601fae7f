"""Edits: what the edits of a round did to each file, in lines, symbols and renames."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backstory.observe.offline.acts import Act, file_text, first, mapping
from backstory.observe.offline.symbols import CONFIG, Symbol, enclosing, indent_of, language, symbol_in

#: What is read of one edit; a file written whole can be megabytes.
LINES_LIMIT = 3000


@dataclass(frozen=True, slots=True)
class Hunk:
    """One stretch of changed lines; start is where it stands in the new file, 0 if unknown."""

    removed: tuple[str, ...]
    added: tuple[str, ...]
    above: tuple[str, ...] = ()  #: lines before it, as many as are known
    start: int = 0


@dataclass(slots=True)
class Change:
    """All that a round did to one file."""

    path: str
    created: bool = False
    acts: list[Act] = field(default_factory=list)
    added: dict[str, Symbol] = field(default_factory=dict)
    removed: dict[str, Symbol] = field(default_factory=dict)
    touched: dict[str, tuple[int, int]] = field(default_factory=dict)  #: symbol -> its changed lines, (0, 0) if unknown
    swaps: list[tuple[str, str, int]] = field(default_factory=list)  #: one line that replaced one line, and where
    comments: list[str] = field(default_factory=list)
    plus: int = 0
    minus: int = 0
    content: str = ""  #: a new file's text
    quoted: str = ""  #: the first meaningful new line, for changes that touch no symbol

    @property
    def weight(self) -> int:
        """How much there is to tell about it."""
        return self.plus + self.minus + 5 * (len(self.added) + len(self.removed) + len(self.touched))


def read_changes(acts: Sequence[Act]) -> list[Change]:
    """The changed files of these acts, in the order of their first edit. A failed edit changed nothing."""
    changes: dict[str, Change] = {}
    seen: dict[str, Act] = {}  # what was read of a file helps to place an edit that came without its surroundings
    for act in acts:
        if act.verb == "read" and not act.failed and act.path:
            seen[act.path] = act
        if act.failed or act.verb not in ("edit", "write"):
            continue
        for path, created, hunks in _edits_of(act, seen.get(act.path)):
            change = changes.setdefault(path, Change(path, created=created))
            change.acts.append(act)
            change.created = change.created or created
            if created and not change.content:
                change.content = "\n".join(hunks[0].added) if hunks else ""
            for hunk in hunks:
                _add(change, hunk)
    return [change for change in changes.values() if change.plus or change.minus or change.created]


def _edits_of(act: Act, seen: Act | None) -> list[tuple[str, bool, list[Hunk]]]:
    """What one act did, per file."""
    patch = first(act.input, "patch", "input", "command")
    if isinstance(patch, str) and "*** Begin Patch" in patch[:200]:
        return _from_envelope(act, patch)
    if not act.path:
        return []
    response = mapping(act.response)
    original = response.get("originalFile")
    original = original.split("\n") if isinstance(original, str) and original else []
    hunks = _from_structured(response.get("structuredPatch"), original)
    if act.verb == "write":
        content = act.text("content", "contents", "file_text")
        created = response.get("type") == "create" or "created" in act.output[:40].lower()
        if not hunks or created:
            hunks = [Hunk((), tuple(content.removesuffix("\n").split("\n")[:LINES_LIMIT]), (), 1)] if content else []
        return [(act.path, created, hunks)]
    if not hunks:
        known = original or (file_text(seen)[0].split("\n") if seen else [])
        hunks = [hunk for old, new in _pairs(act.input) for hunk in _from_strings(old, new, known)]
        if not original:  # read before other edits, perhaps: good for names, not for line numbers
            hunks = [replace(hunk, start=0) for hunk in hunks]
    return [(act.path, False, hunks)]


def _pairs(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    edits = inputs.get("edits") or inputs.get("replacements")
    found = []
    for edit in [inputs, *(edits if isinstance(edits, list) else [])]:
        given = mapping(edit)
        old = first(given, "old_string", "oldString", "old_str", "old_source")
        new = first(given, "new_string", "newString", "new_str", "new_source", "insert_text", "code_edit", "code")
        if isinstance(old, str) or isinstance(new, str):
            found.append((old if isinstance(old, str) else "", new if isinstance(new, str) else ""))
    return found


def _from_structured(patch: Any, original: list[str]) -> list[Hunk]:
    hunks: list[Hunk] = []
    for part in patch if isinstance(patch, list) else []:
        lines, start, old = (mapping(part).get(key) for key in ("lines", "newStart", "oldStart"))
        if isinstance(lines, list):
            above = original[: old - 1] if isinstance(old, int) and old > 0 else []
            texts = [line for line in lines[:LINES_LIMIT] if isinstance(line, str)]
            hunks += _stretches(texts, start if isinstance(start, int) else 0, above)
    return hunks


def _stretches(lines: Iterable[str], start: int, above: Sequence[str]) -> list[Hunk]:
    """The runs of + and - lines of a unified hunk, each with what stands above it in the new file."""
    hunks: list[Hunk] = []
    seen, removed, added = list(above), list[str](), list[str]()
    number = first_line = start

    def close() -> None:
        if removed or added:
            hunks.append(Hunk(tuple(removed), tuple(added), tuple(seen[-600:]), first_line if start else 0))
            seen.extend(added)
            removed.clear()
            added.clear()

    for line in lines:
        mark, text = line[:1], line[1:]
        if mark in "+-" and mark:
            first_line = first_line if removed or added else number
            (added if mark == "+" else removed).append(text)
        elif mark != "\\":
            close()
            seen.append(text)
        number += mark not in ("-", "\\")
    close()
    return hunks


def _from_strings(old: str, new: str, original: Sequence[str]) -> list[Hunk]:
    """The hunk between two strings: their common first and last lines are context."""
    before, after = old.split("\n")[:LINES_LIMIT] if old else [], new.split("\n")[:LINES_LIMIT] if new else []
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    tail = 0
    while tail < min(len(before), len(after)) - same and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    removed, added = before[same : len(before) - tail], after[same : len(after) - tail]
    if not removed and not added:
        return []
    at = _find(original, before)
    above = [*original[:at], *before[:same]] if at >= 0 else before[:same]
    return [Hunk(tuple(removed), tuple(added), tuple(above[-600:]), at + same + 1 if at >= 0 else 0)]


def _find(lines: Sequence[str], wanted: Sequence[str]) -> int:
    """Where the wanted lines begin, -1 unless there is one such place; the first and the last may be parts of lines."""
    if not lines or not wanted:
        return -1
    inner = range(1, len(wanted) - 1) if len(wanted) > 2 else range(len(wanted))
    anchor = max(inner, key=lambda i: len(wanted[i]))
    places = [at - anchor for at, line in enumerate(lines) if wanted[anchor] in line and at >= anchor][:20]
    fits = [
        at for at in places if all(want in line for want, line in zip(wanted[:40], lines[at : at + 40], strict=False))
    ]
    return fits[0] if len(fits) == 1 else -1


def _from_envelope(act: Act, patch: str) -> list[tuple[str, bool, list[Hunk]]]:
    """The files of a patch between `*** Begin Patch` and `*** End Patch`."""
    found: list[tuple[str, bool, list[Hunk]]] = []
    for part in re.split(r"^\*\*\* (?=Add File|Update File|Delete File)", patch[:400_000], flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        action, _, path = head.partition(": ")
        hunks = []
        for chunk in re.split(r"^@@.*$", body, flags=re.M):
            hunks += _stretches([line for line in chunk.split("\n") if not line.startswith("***")], 0, ())
        found.append((act.relative(path.strip()), action == "Add File", hunks))
    return found


def _add(change: Change, hunk: Hunk) -> None:
    """Fold one hunk into a file's change."""
    path = change.path
    change.plus += len(hunk.added)
    change.minus += len(hunk.removed)
    old, new = _defined(hunk.removed, path, hunk), _defined(hunk.added, path, hunk)
    gone, come = old.keys() - new.keys(), new.keys() - old.keys()
    for name in new:
        if name in come and name not in change.removed:
            change.added[name] = new[name]
        elif name not in change.added:
            change.touched.setdefault(name, (0, 0))
        change.removed.pop(name, None)
    for name in old:
        if name in gone:
            if change.added.pop(name, None) is None:
                change.removed[name] = old[name]
            change.touched.pop(name, None)
    _touch(change, hunk, new)
    _note_lines(change, hunk)


def _defined(lines: Sequence[str], path: str, hunk: Hunk) -> dict[str, Symbol]:
    """The symbols that these lines begin, by their full names."""
    found: dict[str, Symbol] = {}
    around: list[Symbol] = []  # the definitions open at this line, outermost first
    for number, line in enumerate(lines):
        symbol = symbol_in(line, path)
        if symbol is None:
            continue
        while around and around[-1].indent >= symbol.indent:
            around.pop()
        if around and around[-1].kind in ("function", "method"):
            continue  # a function inside a function is how it is done, not what is there
        outer = around[-1].name if around else enclosing(hunk.above, symbol.indent, path) if symbol.indent else ""
        nested = outer and symbol.kind in ("function", "method", "key")
        whole = Symbol(
            f"{outer}.{symbol.name}" if nested else symbol.name,
            symbol.kind,
            hunk.start + number if hunk.start else 0,
            symbol.indent,
        )
        around.append(whole)
        found[whole.name] = whole
    return found


def _touch(change: Change, hunk: Hunk, new: Mapping[str, Symbol]) -> None:
    """Name the definition around the changed lines that are not themselves a definition's beginning."""
    lines = hunk.added or hunk.removed
    body = next((line for line in lines if line.strip()), "")
    if not body or (language(change.path) in CONFIG and new):
        return
    if symbol_in(body, change.path) and indent_of(body) == 0:
        return
    name = enclosing(hunk.above, indent_of(body), change.path)
    if name and name not in change.added:
        last = hunk.start + max(len(hunk.added) - 1, 0) if hunk.start else 0
        low, high = change.touched.get(name, (0, 0))
        change.touched[name] = (min(filter(None, (low, hunk.start)), default=0), max(high, last))


_COMMENT = re.compile(r"\s*(?://+|#+|--|\*|/\*+|\"\"\"|'''|;;)[ \t]*(?=[A-Z\u3040-\u9fff\uac00-\ud7af])(.{12,300})")


def _digitless(line: str) -> str:
    """A line that only renumbers a list says nothing; one whose only number changed does."""
    return re.sub(r"^(\s*)\d+[.)]", r"\1", line[:400])


# Lines that every file has: they say nothing about a change.
_USUAL = re.compile(r"\s*(?:#|//|/?\*|import\b|from\b|use\b|package\b|\"[^\"]*\",?$|if err != nil|return\b|[\]})]+)")


def _note_lines(change: Change, hunk: Hunk) -> None:
    removed, added = [x for x in hunk.removed if x.strip()], [x for x in hunk.added if x.strip()]
    if len(removed) == len(added) == 1 and len(change.swaps) < 40 and _digitless(removed[0]) != _digitless(added[0]):
        change.swaps.append((removed[0].strip(), added[0].strip(), hunk.start))
    fresh = Counter(added) - Counter(removed) if removed else Counter(added[:LINES_LIMIT])
    for line in fresh:
        if len(change.comments) < 4 and (comment := _COMMENT.match(line[:400])):
            change.comments.append(comment.group(1).strip("*/ \t\"'"))
        elif len(change.quoted) < 16 and len(line.strip()) > 8 and not _USUAL.match(line):
            change.quoted = line.strip()
    if not change.quoted:
        change.quoted = (added or removed or [""])[0].strip()
