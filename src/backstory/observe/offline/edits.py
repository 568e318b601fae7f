"""Edits: which files the edits of a round changed, and which definitions in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backstory.observe.offline.acts import Act, first, mapping

#: Lines that are read of one edit, and characters of each line.
LINES = 3000
LINE = 300
#: Lines above an edit in which the definition around it is searched.
ABOVE = 600
#: Characters that are read of one patch.
PATCH = 400_000

# Every quantifier is bounded or stands at the beginning of a line, so that no text takes more than linear time.
_DEFINITION = re.compile(
    r"""[ \t]{0,60}
    (?:(?:export|default|declare|pub(?:\([^)\n]{1,40}\))?|public|private|protected|internal|static|final|abstract|sealed
      |override|open|data|async|unsafe|const|inline|suspend|local|partial|virtual|readonly)[ \t]+){0,6}
    (?:
      (?:def|defp|defmodule|class|function|func|fun|fn|struct|enum|trait|interface|type|impl|mod|module|namespace|record
        |object|protocol|message|service|rpc|macro_rules!)[ \t*]+(?:\([^)\n]{0,120}\)[ \t]*)?(?P<name>[\w$.:?!]+?)
        (?=[ \t]*(?:[(){}<:=\[;]|$)|[ \t]+(?:extends|implements|struct|interface|func|map|for|where|do)\b)
    | type[ \t]+(?P<type>\w+)[ \t]+[\w.*\[\]]{1,80}$
    | (?:const|let|var)[ \t]+(?P<function>[\w$]+)[ \t]*(?::[^=\n]{1,99})?=[ \t]*(?:async\b|function\b|\(|[\w$]+[ \t]*=>)
    | (?P<constant>[A-Z][A-Z0-9_]{2,60})(?::[^=\n]{1,80})?[ \t]+=(?!=)
    | (?!(?:if|for|while|switch|catch|function)\b)(?P<bare>[\w$-]{1,80})\((?:\)|[^;()\n]{0,200}\))[ \t]*\{[ \t]*$
    | (?<=[ \t])(?!(?:return|new|throw|else|await|go|defer|if|for|while|switch|catch)\b)[\w<>\[\],.?]{1,80}[ \t]+
        (?P<method>\w{1,80})\([^;\n]{0,200}\{[ \t]*$
    )""",
    re.X,
)
_HEADING = re.compile(r"#{1,6}[ \t]+(?P<heading>.{1,120})")
_KEY = re.compile(r"""[ \t]{0,60}(?:-[ \t]+)?\[{0,2}["']?(?P<key>[\w./-]{1,80})["']?(?:\]|[ \t]*=|:(?=[ \t\r]|$))""")
_BY_EXTENSION: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(("md", "markdown", "mdx"), _HEADING),
    **dict.fromkeys(("toml", "ini", "cfg", "yaml", "yml", "json", "jsonc"), _KEY),
}
_PROSE = frozenset(("txt", "rst", "html", "csv", "svg", "xml", "lock"))


@dataclass(frozen=True, slots=True)
class Hunk:
    """Changed lines, and the lines above them as far as they are known."""

    removed: Sequence[str]
    added: Sequence[str]
    above: Sequence[str] = ()


@dataclass(slots=True)
class Change:
    """All that a round did to one file. The names of definitions are keys, in the order of their edits."""

    path: str
    created: bool = False
    acts: list[Act] = field(default_factory=list)
    lines: int = 0
    added: dict[str, None] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)
    touched: dict[str, None] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """How much there is to tell about it."""
        return self.lines + 5 * (len(self.added) + len(self.removed) + len(self.touched))

    def add(self, hunk: Hunk) -> None:
        """Add the changes of one hunk."""
        if not hunk.removed and not hunk.added:
            return
        self.lines += len(hunk.removed) + len(hunk.added)
        old, new = _names(hunk.removed, self.path), _names(hunk.added, self.path)
        for name in new:
            if name in old or name in self.removed:
                self.touched |= {name: None} if name not in self.added else {}
                self.removed.pop(name, None)
            else:
                self.added[name] = None
        for name in (name for name in old if name not in new):
            self.touched.pop(name, None)
            if name in self.added:
                del self.added[name]
            else:
                self.removed[name] = None
        if not old and not new and (around := _around(hunk, self.path)) and around not in self.added:
            self.touched[around] = None


def read_changes(acts: Sequence[Act]) -> list[Change]:
    """Return the changed files, in the order of their first edit. A failed edit changed nothing."""
    changes: dict[str, Change] = {}
    for act in acts:
        if act.failed or act.verb not in ("edit", "write"):
            continue
        for path, is_created, hunks in _edits_of(act):
            change = changes.setdefault(path, Change(path))
            change.acts.append(act)
            change.created = change.created or is_created
            for hunk in hunks:
                change.add(hunk)
    return [change for change in changes.values() if change.lines or change.created]


def _edits_of(act: Act) -> list[tuple[str, bool, list[Hunk]]]:
    """The files that one act edited: path, whether it is new, and its hunks."""
    patch = first(act.input, "patch", "input", "command")
    if isinstance(patch, str) and "*** Begin Patch" in patch[:200]:
        return _from_envelope(act, patch)
    if not act.path:
        return []
    response = mapping(act.response)
    original = response.get("originalFile")
    original = original if isinstance(original, str) else ""
    parts = response.get("structuredPatch")
    hunks = [_from_patch(mapping(part), original) for part in (parts if isinstance(parts, list) else [])]
    is_created = False
    if act.verb == "write":
        is_created = response.get("type") == "create" or "created" in act.output[:40].lower()
        content = act.text("content", "contents", "file_text")
        if is_created or not hunks:
            hunks = [Hunk((), content.removesuffix("\n").split("\n")[:LINES])] if content else []
    elif not hunks:
        hunks = [_from_strings(old, new, original) for old, new in _pairs(act.input)]
    return [(act.path, is_created, hunks)]


def _pairs(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The old and the new text of each edit."""
    edits = inputs.get("edits") or inputs.get("replacements")
    pairs = []
    for edit in [inputs, *(edits if isinstance(edits, list) else [])]:
        given = mapping(edit)
        old = first(given, "old_string", "oldString", "old_str", "old_source")
        new = first(given, "new_string", "newString", "new_str", "new_source", "insert_text", "code_edit", "code")
        pairs.append((old if isinstance(old, str) else "", new if isinstance(new, str) else ""))
    return pairs


def _from_strings(old: str, new: str, original: str) -> Hunk:
    """The lines between those that two texts begin and end with in common."""
    before, after = (text.split("\n")[:LINES] if text else [] for text in (old, new))
    same = _common(before, after)
    above = [*(original[: max(original.find(old), 0)].split("\n") if old else ()), *before[:same]]
    tail = _common(before[same:][::-1], after[same:][::-1])
    return Hunk(before[same : len(before) - tail], after[same : len(after) - tail], above)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines are the same at the beginning of both."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (line, same) in pairs if line != same), min(len(one), len(other)))


def _from_patch(part: Mapping[str, Any], original: str) -> Hunk:
    """One part of a patch that the response tells."""
    lines, start = part.get("lines"), part.get("oldStart")
    above = original.split("\n")[: max(start - 1, 0)] if isinstance(start, int) else []
    return _unified([line for line in lines[:LINES] if isinstance(line, str)] if isinstance(lines, list) else [], above)


def _unified(lines: Sequence[str], above: Sequence[str] = ()) -> Hunk:
    removed, added = ([line[1:] for line in lines if line.startswith(mark)] for mark in "-+")
    context = next((at for at, line in enumerate(lines) if line.startswith(("-", "+"))), len(lines))
    return Hunk(removed, added, [*above, *(line[1:] for line in lines[:context])])


def _from_envelope(act: Act, patch: str) -> list[tuple[str, bool, list[Hunk]]]:
    """The files of a patch between `*** Begin Patch` and `*** End Patch`."""
    edits = []
    for part in re.split(r"^\*\*\* (?=Add File|Update File|Delete File)", patch[:PATCH], flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        action, _, path = head.partition(": ")
        # What stands behind "@@" is a line above the change.
        hunks = [_unified(chunk.split("\n")[:LINES]) for chunk in re.split(r"^@@", body, flags=re.M)]
        edits.append((act.relative(path.strip()), action == "Add File", hunks))
    return edits


def _name(line: str, path: str) -> str:
    """The name of what is defined in this line, if anything is."""
    extension = path.rpartition(".")[2].lower()
    match = None if extension in _PROSE else _BY_EXTENSION.get(extension, _DEFINITION).match(line[:LINE])
    return str(match[match.lastgroup or 0]).strip() if match else ""


def _names(lines: Iterable[str], path: str) -> dict[str, None]:
    return dict.fromkeys(name for line in lines if (name := _name(line, path)))


def _indent(line: str) -> int:
    line = line[:LINE].expandtabs(4)
    return len(line) - len(line.lstrip())


def _around(hunk: Hunk, path: str) -> str:
    """The name of the definition that the changed lines stand in."""
    changed = next((line for line in (*hunk.added, *hunk.removed) if line.strip()), "")
    has_headings = path.endswith((".md", ".markdown", ".mdx"))
    indent = _indent(changed)
    for line in reversed(hunk.above[-ABOVE:]):
        is_outside = line.strip() and _indent(line) < indent and not line.lstrip().startswith((")", "]", "}"))
        if (is_outside or has_headings) and (name := _name(line, path)):
            return name
        indent = _indent(line) if is_outside else indent
    return ""
