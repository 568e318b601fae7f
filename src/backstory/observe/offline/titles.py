"""Titles and types of changes, where nothing was said about them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from backstory.labels import names_decision, without_label
from backstory.observe.offline.cues import CUES
from backstory.observe.offline.edits import Change
from backstory.observe.offline.text import code, joined, plural

# The first of these words decides; words that only set the scene ("error", "wrong") do not count as a fix.
_INTENTS = {
    "bugfix": re.compile(
        r"\b(?:fix(?:es|ed|ing)?|bug(?:s|gy)?|broken|breaks|regress\w*|crash\w*|fail(?:s|ing|ed|ures?)|"
        r"doesn'?t work|not working|panics?|debug|repair|hangs?|leaks?|root cause)\b|"
        r"修复|修正|バグ|エラー|오류|버그|고쳐",
        re.IGNORECASE,
    ),
    "refactor": re.compile(
        r"\b(?:refactor\w*|rename\w*|extract\w*|moved?|simplif\w*|clean(?:ed)? ?up|dedup\w*|restructure|reorgani[sz]e|"
        r"inline|consolidate\w*)\b|duplicat\w*|重构|リファクタ|리팩토링",
        re.IGNORECASE,
    ),
    "feature": re.compile(
        r"\b(?:add(?:s|ed|ing)?|implement\w*|supports?|creat\w*|introduc\w*|extend\w*|enabl\w*)\b"
        r"|添加|新增|实现|追加|実装|추가|구현",
        re.IGNORECASE,
    ),
    "change": re.compile(
        r"\b(?:chang\w*|updat\w*|rewr\w*|remov\w*|delet\w*|drop\w*|document|bump|upgrade|revert\w*|replac\w*|adjust)\b",
        re.IGNORECASE,
    ),
}
_CHOSEN = re.compile(
    r"\b(?:decid\w+|decision|chose|opted|agreed|prefer|trade-?off|entschieden)\b|决定|決定|ことにし",
    re.IGNORECASE,
)
#: These words tell a decision only with its reason: `now calls a() instead of b()` is a change.
_OVER = re.compile(r"\b(?:instead of|rather than|statt|en lugar de)\b|而不是|代わりに", re.IGNORECASE)
_CAUSE = re.compile(r"(?:the )?(?:root )?(?:cause|ursache|causa)\b|原因", re.IGNORECASE)


def type_of(statement: str, prompt: str, has_changes: bool) -> str:
    """Return the type of an observation."""
    if _CAUSE.match(statement):
        return "bugfix" if has_changes else "discovery"
    if (
        names_decision(without_label(statement)[0])
        or _CHOSEN.search(statement)
        or (_OVER.search(statement) and CUES["cause"].search(statement))
    ):
        return "decision"
    if not has_changes:
        return "discovery"
    asked = _intent(prompt[:600])
    if asked == "bugfix" and CUES["cause"].search(statement):
        return "bugfix"
    return _intent(statement) or asked or "change"


def _intent(text: str) -> str | None:
    marks = [(match.start(), name) for name, words in _INTENTS.items() if (match := words.search(text))]
    return min(marks)[1] if marks else None


def title_of_changes(changes: Sequence[Change]) -> str:
    """Return a title for changed files: what became of the one that changed most."""
    main = max(changes, key=lambda change: change.weight)
    names = joined((code(name, 60) for name in main.added or main.removed or main.touched), 3)
    verb = "Create" if main.created else "Add" if main.added else "Remove" if main.removed else "Change"
    title = f"{verb} {names} in {main.path}" if names and not main.created else f"{verb} {main.path}"
    return title + (f" and {plural(len(changes) - 1, 'more file')}" if len(changes) > 1 else "")
