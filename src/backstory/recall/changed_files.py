"""Which observations are about files that have changed since. Looks at the files, and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from backstory.file_digests import mark
from backstory.store.db import Tx


def changed(tx: Tx, ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """The files of each observation that hold something else than when it was made, or are gone."""
    wanted = sorted(set(ids))
    rows = tx.all("observation_marks", ids=json.dumps(wanted)) if wanted else []
    now: dict[Path, str | None] = {}
    there: dict[str, bool] = {}
    found: dict[int, list[str]] = {}
    for row in rows:
        root, path = row["cwd"], Path(row["cwd"], row["path"])
        if root not in there:
            there[root] = Path(root).is_dir()
        if not there[root]:
            continue  # another machine's, or a folder that was moved: nothing is known of its files
        if path not in now:
            now[path] = mark(path)
        if now[path] != row["mark"]:
            found.setdefault(row["observation_id"], []).append(row["path"])
    return {number: tuple(sorted(paths)) for number, paths in found.items()}
