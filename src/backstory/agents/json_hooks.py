"""Installs our hooks and permission rules in an agent's JSON settings file, and restores that file on uninstall."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from backstory.agents.install import (
    SHARED,
    FileChange,
    InstalledPart,
    carry_out,
    missing_dirs,
    remove_empty,
    swap,
    write_whole,
)
from backstory.agents.json_text import (
    Hook,
    Ours,
    containers,
    odd_rules,
    odd_shape,
    rules_of,
    text_of,
    value_of,
    with_hooks,
    with_rules,
    without_hooks,
    without_rules,
)
from backstory.errors import SettingsUnreadable

Rules = tuple[str, ...]


def part(
    path: Path, hooks: Mapping[str, Hook], ours: Ours, record: Path, rules: Rules = (), mode: int = SHARED
) -> InstalledPart:
    """Return our hooks as a part of an installation. `rules` are permissions that come with them."""
    return InstalledPart(
        "hooks and permissions are" if rules else "hooks are",
        path,
        record,
        partial(install, path, hooks, ours, record, rules=rules, mode=mode),
        partial(uninstall, path, ours, record, rules=rules),
    )


@dataclass(frozen=True, slots=True)
class InstallRecord:
    """The settings file before and after the install. It is kept in our data directory, for uninstall."""

    origin: bytes | None  # the file without our hooks; None if there was no file
    written: bytes
    made_file: bool  # we made the file, so uninstall deletes it if nothing else is left in it
    made_dirs: tuple[str, ...]  # innermost first
    rules: Rules = ()  # those that we wrote; one that somebody deleted stays deleted

    @classmethod
    def load(cls, path: Path) -> InstallRecord | None:
        """Read a record. Return None if it is missing or damaged: our hooks are then recognised by their command."""
        try:
            kept = json.loads(path.read_bytes())
            origin = None if kept["origin"] is None else kept["origin"].encode()
            meaning(origin)
            made, rules = (tuple(map(str, kept.get(name, ()))) for name in ("made_dirs", "rules"))
            return cls(origin, kept["written"].encode(), bool(kept["made_file"]), made, rules)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def save(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        origin = None if self.origin is None else self.origin.decode()
        kept = {"origin": origin, "written": self.written.decode(), "made_file": self.made_file}
        lists = {"made_dirs": self.made_dirs, "rules": self.rules}
        write_whole(path, json.dumps(kept | lists, indent=1).encode(), 0o600)


def install(
    path: Path,
    hooks: Mapping[str, Hook],
    ours: Ours,
    record: Path,
    dry_run: bool = False,
    rules: Rules = (),
    mode: int = SHARED,
) -> FileChange:
    """Make the file hold exactly these hooks of ours, and the rules. Everything else in it stays."""
    if not all(ours(hook.command) for hook in hooks.values()):
        raise ValueError("a hook that `ours` does not know could never be taken out again")

    def attempt(target: Path, before: bytes | None) -> FileChange | None:
        text, old = text_of(path, before), InstallRecord.load(record)
        if odd := odd_shape(value_of(text)) or (odd_rules(value_of(text)) if rules else None):
            raise SettingsUnreadable(f"{path} {odd}, so nothing was changed.")
        bare = without_ours(path, before, old, ours, rules)
        held = bare != before
        written = old.rules if old and held else ()
        new = [rule for rule in rules if rule not in written]
        after = with_rules(with_hooks(text, hooks, ours, containers(meaning(bare))), new).encode()
        change = FileChange(path, before, after, "unchanged" if after == before else "updated" if held else "installed")
        if dry_run or (after == before and old is not None):
            return change
        # A file without our hooks is the original, whatever an old record says.
        earlier = old if held or before is None else None
        made_file = before is None or (earlier is not None and earlier.made_file)
        made_dirs = dict.fromkeys([*missing_dirs(target), *(earlier.made_dirs if earlier else ())])
        # The record is written first: a record without hooks does no harm, hooks without a record are harder to undo.
        InstallRecord(bare, after, made_file, tuple(made_dirs), (*written, *new)).save(record)
        return change if swap(target, before, after, mode) else None

    known = InstallRecord.load(record)
    try:
        return carry_out(path, attempt)
    except SettingsUnreadable:
        put_back(known, record)
        raise


def uninstall(path: Path, ours: Ours, record: Path, dry_run: bool = False, rules: Rules = ()) -> FileChange:
    """Take our hooks and rules out. If nobody else has changed the file, its original bytes are restored."""

    def attempt(target: Path, before: bytes | None) -> FileChange | None:
        old = InstallRecord.load(record)
        after = without_ours(path, before, old, ours, rules)
        back = after is None or (old is not None and after == old.origin)
        change = FileChange(path, before, after, "absent" if after == before else "restored" if back else "removed")
        if dry_run:
            return change
        if not swap(target, before, after):
            return None
        if after is None and old is not None:
            remove_empty(old.made_dirs)
        record.unlink(missing_ok=True)
        return change

    return carry_out(path, attempt)


def without_ours(
    path: Path, before: bytes | None, record: InstallRecord | None, ours: Ours, rules: Rules = ()
) -> bytes | None:
    """Return the file without our hooks and rules; None for no file."""
    if before is None:
        return None
    # An older version may have written hooks that `ours` does not recognise.
    if record is not None and before == record.written:
        return record.origin
    text = text_of(path, before)
    origin = record.origin if record is not None else None
    theirs = rules_of(meaning(origin)).get("allow", ())
    written = {*rules, *(record.rules if record else ())}.difference(rule for rule in theirs if isinstance(rule, str))
    rest = without_hooks(text, ours, containers(meaning(origin)))
    if record is not None or rest != text:  # else the rules are somebody's own
        rest = without_rules(rest, written, meaning(origin))
    if rest == text:
        return before
    if record is not None and record.made_file and value_of(rest) == {}:
        return None
    # An agent that stores a setting may reformat the file. If the values are the original ones, so is the file.
    return origin if origin is not None and value_of(rest) == meaning(origin) else rest.encode()


def meaning(content: bytes | None) -> Any:
    return value_of((content or b"").decode())


def put_back(known: InstallRecord | None, record: Path) -> None:
    """Restore the record after an install that failed: records say where we are installed."""
    if InstallRecord.load(record) == known:
        return
    with contextlib.suppress(OSError):
        if known is None:
            record.unlink(missing_ok=True)
        else:
            known.save(record)
