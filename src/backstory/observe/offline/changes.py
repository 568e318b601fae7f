"""Changes, told: what became of each file, by symbols and lines, and why."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from backstory.observe.offline.draft import TITLE, Draft, reason
from backstory.observe.offline.edits import Change
from backstory.observe.offline.renames import renames
from backstory.observe.offline.scene import Scene
from backstory.observe.offline.symbols import CONFIG, PROSE, language
from backstory.observe.offline.text import code, joined, lead, plural

GROUPS = 5
_TEST_PATH = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_[^/]*$|[._-](?:test|spec)\.\w+$|(?:_test|Tests?)\.\w+$"
)
_TEST_AFFIX = re.compile(r"^test_|(?:[._-](?:test|spec)|_test|Tests?)$")


def short(path: str, room: int = 44) -> str:
    """A path that fits a title: whole if it is short, else its last parts."""
    parts = path.split("/")
    while len("/".join(parts)) > room and len(parts) > 2:
        parts = parts[1:]
    return "/".join(parts) if len("/".join(parts)) <= room else parts[-1]


def is_test(path: str) -> bool:
    """Whether a file holds tests."""
    return bool(_TEST_PATH.search(path))


def names_of(table: Sequence[str], most: int = 4) -> str:
    """Symbols as they are told."""
    return joined((code(name, 60) for name in table), most)


def main_names(change: Change) -> list[str]:
    """What a file defines, the outer things first; a document by its title."""
    symbols = list(change.added.values())
    if language(change.path) in PROSE:
        return [symbol.name for symbol in symbols[:1]]
    top = min((symbol.indent for symbol in symbols), default=0)
    return [symbol.name for symbol in symbols if symbol.indent == top or symbol.kind == "test"]


def title_of(change: Change) -> str:
    """The change of one file in a line that still names the file: fewer names and a shorter path until it fits."""
    variants = [_title(change, most, room) for most, room in ((3, 60), (2, 44), (1, 44), (1, 24))]
    return next((title for title in variants if len(title) <= TITLE), variants[-1])


def _title(change: Change, most: int, room: int) -> str:
    place = short(change.path, room)
    added, touched, removed = (names_of(list(table), most) for table in (change.added, change.touched, change.removed))
    if change.created:
        names = names_of(main_names(change), most)
        return f"Add {place}: {names}" if names else f"Add {place} ({plural(change.plus, 'line')})"
    if touched:
        also = f"; add {added}" if added else f"; remove {removed}" if removed else ""
        return f"Change {touched} in {place}{lines_of(change)}{also if most > 1 or room > 24 else ''}"
    if added:
        return f"Add {added} in {place}, remove {removed}" if removed and most > 1 else f"Add {added} to {place}"
    return f"Remove {removed} from {place}" if removed else _line_title(change, place, most)


def _line_title(change: Change, place: str, most: int) -> str:
    """A title for a change that touches no symbol: by its lines."""
    if len(change.swaps) == 1 and change.plus + change.minus == 2:
        old, new, line = change.swaps[-1]
        return f"Change {place}{f':{line}' if line else ''}: {contrast(old, new, 12 * most)}"
    quoted = f": {code(change.quoted, 20 * most)}" if change.quoted else ""
    if not change.plus:
        return f"Remove {plural(change.minus, 'line')} from {place}{quoted}"
    return f"Change {place} (+{change.plus} −{change.minus} lines){quoted}"


def contrast(old: str, new: str, limit: int) -> str:
    """Two lines, side by side, from shortly before they differ if they differ late."""
    same = len(posixpath.commonprefix([old, new]))
    if same > limit // 2 and max(len(old), len(new)) > limit:
        start = old.rfind(" ", 0, max(same - 8, 0)) + 1 or same
        old, new = f"…{old[start:]}", f"…{new[start:]}"
    return f"{code(old, limit)} → {code(new, limit)}"


def lines_of(change: Change) -> str:
    """`:41-58`, if one symbol was touched and its lines are known."""
    spans = [span for span in change.touched.values() if span[0]]
    return f":{_span(spans[0])}" if len(spans) == 1 == len(change.touched) else ""


def _span(span: tuple[int, int]) -> str:
    return f"{span[0]}-{span[1]}" if span[1] > span[0] else str(span[0])


def facts_of(change: Change) -> list[str]:
    """What there is to know about one file's change, the most telling first."""
    path, facts = change.path, []
    if change.created:
        names = names_of(main_names(change), 8)
        facts.append(
            f"New file {path} ({plural(change.plus, 'line')})"
            + (f" defines {names}" if names and language(path) not in PROSE else "")
        )
    elif change.added:
        lines = [
            f"{code(name, 60)}{f' (line {symbol.line})' if symbol.line else ''}"
            for name, symbol in change.added.items()
        ]
        facts.append(f"{path}: added {joined(lines, 5)}")
    if change.removed:
        facts.append(f"{path}: removed {names_of(list(change.removed), 6)}")
    if change.touched and not change.created:
        spans = [f"{code(name, 60)}{f' at {_span(span)}' if span[0] else ''}" for name, span in change.touched.items()]
        facts.append(f"{path}: changed {joined(spans, 5)}")
    for old, new, line in change.swaps[-2:] if not change.created else ():
        facts.append(f"{path}{f':{line}' if line else ''}: {contrast(old, new, 70)}")
    if change.comments and language(path) not in PROSE | CONFIG:
        facts.append(f"Comment in {posixpath.basename(path)}: “{change.comments[0]}”")
    return facts or [f"{path}: {plural(change.plus, 'line')} added, {change.minus} removed"]


def compact(change: Change) -> str:
    """One file's change in half a line."""
    if change.created:
        names = names_of(main_names(change), 3)
        return f"{change.path}: new" + (f", {names}" if names else "")
    parts = [
        f"{verb} {names_of(list(table), 3)}"
        for verb, table in (("added", change.added), ("changed", change.touched), ("removed", change.removed))
        if table
    ]
    if not parts and change.swaps:
        old, new, _ = change.swaps[-1]
        parts = [contrast(old, new, 50)]
    return f"{change.path}: {'; '.join(parts) or f'+{change.plus} −{change.minus} lines'}"


def change_drafts(scene: Scene, told: set[str]) -> list[Draft]:
    """One draft per file or coherent group of files; `told` are the paths another draft tells."""
    drafts, explained = _rename_drafts(scene)
    changes = [change for change in scene.changes if change.path not in told | explained]
    return [*drafts, *(_group_draft(scene, group) for group in groups(changes))]


def _stem(path: str) -> str:
    return _TEST_AFFIX.sub("", posixpath.splitext(posixpath.basename(path))[0]).lower()


def groups(changes: Sequence[Change]) -> list[list[Change]]:
    """Files that belong together: a source and its tests, a symbol's old and new home, at last all the small ones."""
    joined_by: dict[str, list[Change]] = {}
    home: dict[str, str] = {}  # a removed symbol -> the group it left
    for change in changes:
        key = _stem(change.path)
        same = joined_by.get(key, [])
        if same and not any(is_test(other.path) != is_test(change.path) for other in same):
            key = change.path
        if came := next((home[name] for name in change.added if name in home), ""):
            key = came
        home |= {name: key for name in change.removed}
        joined_by.setdefault(key, []).append(change)
    found = list(joined_by.values())
    if len(found) <= GROUPS:
        return found
    weights = sorted((sum(change.weight for change in group) for group in found), reverse=True)
    bar = weights[GROUPS - 1]
    large = [group for group in found if sum(change.weight for change in group) > bar][: GROUPS - 1]
    rest = [change for group in found if group not in large for change in group]
    return [*large, rest]


def _group_draft(scene: Scene, group: list[Change]) -> Draft:
    ranked = sorted(group, key=lambda change: (is_test(change.path), language(change.path) in PROSE, -change.weight))
    main, others = ranked[0], ranked[1:]
    moved = [
        name
        for change in group
        for name in change.added
        if any(name in other.removed for other in group if other is not change)
    ]
    title = title_of(main)
    if moved:
        source = next(change.path for change in group if moved[0] in change.removed)
        target = next(change.path for change in group if moved[0] in change.added)
        title = f"Move {names_of(moved, 2)} from {short(source, 30)} to {short(target, 30)}"
    elif others and len(title) < 84:
        title += (
            " (+ tests)"
            if all(is_test(change.path) for change in others)
            else f" and {plural(len(others), 'more file')}"
        )
    facts = facts_of(main)[: 6 if not others else 3 if len(others) > 2 else 4]
    facts += _packed([compact(change) for change in others], 6 - len(facts))
    names = [posixpath.basename(change.path) for change in group] + [
        name for change in ranked[:2] for name in (*change.added, *change.touched)
    ]
    return Draft(
        rank=0,
        type="refactor" if moved else type_of(scene, group),
        title=title,
        subtitle=_subtitle(group),
        narrative=narrative(scene, reason(scene.message, names), group),
        facts=facts,
        concepts=["what-changed"],
        read=_read_for(scene, group),
        modified=[change.path for change in group],
        acts=[act for change in group for act in change.acts],
    )


def _packed(lines: list[str], room: int) -> list[str]:
    """The lines in at most so many facts, two or more to a fact if they must."""
    if len(lines) <= room or room <= 0:
        return lines[: max(room, 0)]
    per = -(-len(lines) // room)
    return ["; ".join(lines[at : at + per]) for at in range(0, len(lines), per)]


def _subtitle(group: Sequence[Change]) -> str:
    plus, minus = sum(change.plus for change in group), sum(change.minus for change in group)
    where = group[0].path if len(group) == 1 else plural(len(group), "file")
    return f"{where}: {plural(plus, 'line')} added, {minus} removed"


def type_of(scene: Scene, group: Sequence[Change]) -> str:
    """What kind of change the prompt and the symbols make it."""
    if scene.intent == "feature":
        return "feature" if any(change.created or change.added for change in group) else "change"
    if scene.intent in ("refactor", "bugfix") and all(language(change.path) in PROSE for change in group):
        return "change"
    last = max((act.at for change in group for act in change.acts), default=-1)
    after = scene.outcome_after(last)
    if scene.intent == "bugfix" and after and not after.ok:
        return "change"  # what still fails is not fixed
    return scene.intent


def narrative(scene: Scene, why: str, group: Sequence[Change] = ()) -> str:
    """Why it was done, in the user's and the assistant's words, and how the tests stood afterwards."""
    parts = [f"Asked: {scene.ask}" if scene.ask else ""]
    if why:
        parts.append(lead(why, 260, 1))
    last = max((act.at for change in group for act in change.acts), default=-1)
    after = scene.outcome_after(last) if group else None
    if after and after.run:
        parts.append(f"Afterwards {after.run.runner}: {after.run.tally}.")
    return " ".join(part if part.endswith((".", "?", "!", "…", "。")) else f"{part}." for part in parts if part)


def _read_for(scene: Scene, group: Sequence[Change]) -> list[str]:
    paths = {change.path for change in group}
    return [act.path for act in scene.acts if act.fresh and act.verb == "read" and act.path in paths]


def _rename_drafts(scene: Scene) -> tuple[list[Draft], set[str]]:
    """A name replaced by another in many lines is told once, and the files with nothing else are told with it."""
    drafts: list[Draft] = []
    explained: set[str] = set()
    found = renames(scene.changes)
    for (old, new), paths in sorted(found.items(), key=lambda item: -len(item[1]))[:2]:
        files = list(dict.fromkeys(paths))
        whole = {c.path for c in scene.changes if c.path in files and c.plus + c.minus == 2 * paths.count(c.path)}
        if not whole:
            continue
        explained |= whole
        where = plural(len(files), "file") if len(files) > 1 else short(files[0])
        acts = [act for change in scene.changes if change.path in files for act in change.acts]
        drafts.append(
            Draft(
                rank=0,
                type="refactor",
                title=f"Replace {code(old, 40)} by {code(new, 40)} in {where}",
                subtitle=f"{plural(len(paths), 'line')} changed",
                narrative=narrative(scene, reason(scene.message, [old, new])),
                facts=[f"{code(old)} became {code(new)} in {joined(files, 5)}"],
                concepts=["what-changed"],
                modified=files,
                acts=acts,
            )
        )
    return drafts, explained
