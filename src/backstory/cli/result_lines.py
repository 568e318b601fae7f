"""How results of a search are printed: in columns on a terminal, as whole lines if piped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from backstory.cli import show
from backstory.text import width

#: Columns of a terminal that the text gets, at least.
TEXT = 60
#: Columns of a type or of a project's name, at most.
LABEL = 9
#: kind of a result that is no observation -> what its text is; that of a summary is what was asked
KINDS = {"prompt": "asked", "summary": "asked", "turn": "said", "session": "session"}
Item = dict[str, Any]


def put(items: list[Item], is_everywhere: bool, explain: Callable[[Any], str] | None = None) -> None:
    """Print results. If all projects were searched, each has the name of its project, else its type."""
    marks = max((len(show.mark(item)) for item in items), default=0)
    labels = [str(item["project"]) if is_everywhere else label(item) for item in items]
    wide = min(max(map(width, labels), default=0), LABEL)
    if show.columns() - marks - wide - 6 < TEXT:
        wide = 0  # a small terminal, or long ids
    for item, named in zip(items, labels, strict=True):
        if sys.stdout.isatty():
            show.line(
                show.Styled(f"{show.mark(item):>{marks}}", show.CYAN),
                show.Styled(f" {show.age(item['created_at']):>3} ", show.DIM),
                show.Styled(f"{show.padded(named, wide)} " if wide else "", show.DIM),
                f"{show.titled(item) or item.get('snippet') or ''}{_replaced(item)}",
            )
        else:
            when, kind = show.when(item["created_at"]), item.get("type") or item["kind"]
            show.line(f"{show.mark(item):>6} {when} {item['project']} {kind}{_replaced(item)}: {show.titled(item)}")
        if explain:
            show.paragraph(explain(item["why"]), " " * 7, "  ")


def put_timeline(items: list[Item]) -> None:
    """Print results in the order of time. On a terminal each day has a heading."""
    marks, day = max((len(show.mark(item)) for item in items), default=0), ""
    for item in items:
        arrow, when = ">" if item["is_anchor"] else " ", show.when(item["created_at"])
        if not sys.stdout.isatty():
            show.line(f"{arrow} {show.mark(item):>6} {when} {item['type'] or item['kind']}: {show.titled(item)}")
            continue
        # What was asked stands above, as the prompt.
        whole = show.titled(item)
        title = whole.partition(" → ")[2] or whole if item["kind"] == "summary" else whole
        if when[:10] != day:
            day = when[:10]
            show.line(show.Styled(day, show.DIM))
        show.line(
            show.Styled(f"{arrow}{show.mark(item):>{marks}}", show.BOLD if item["is_anchor"] else show.CYAN),
            show.Styled(f" {when[11:]} {show.padded(label(item) if title == whole else 'summary', LABEL)} ", show.DIM),
            show.Styled(title, show.BOLD if item["is_anchor"] else ""),
        )


def label(item: Item) -> str:
    """Return the type of an observation, or what another kind of result is called."""
    return str(item.get("type") or KINDS.get(item["kind"], item["kind"]))


def _replaced(item: Item) -> str:
    return f" (replaced by #{item['superseded_by']})" if item.get("superseded_by") else ""


def hint(text: str) -> None:
    """Print what to do next. Scripts do not need it."""
    for each in text.splitlines() if sys.stdout.isatty() else ():
        show.line(show.Styled(each, show.DIM))
