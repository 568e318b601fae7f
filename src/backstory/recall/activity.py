"""Activity: what happened on each day, what was learned where, and how long rounds waited to be observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from backstory import ids
from backstory.store import activity, contexts, counts, projects
from backstory.store.activity import HourCount
from backstory.store.db import Tx

#: Observations whose files are counted, at most: the newest.
OBSERVATIONS = 10_000
#: Files and projects that are listed, at most.
LISTED = 20
#: Rounds whose waiting time is measured, and events among which they are.
ROUNDS = 200
EVENTS = 20_000


@dataclass(slots=True)
class DayCounts:
    """What happened on a day."""

    day: str  #: in local time: 2026-02-21
    sessions: int = 0
    prompts: int = 0
    observations: int = 0
    summaries: int = 0
    tokens_spent: int = 0
    cost_micros: int = 0  #: of the calls whose price is known
    calls_without_price: int = 0
    contexts: int = 0  #: that sessions were given
    tokens_told_estimate: int = 0


def days(tx: Tx, project: str, number: int) -> list[dict[str, Any]]:
    """Return the last days, oldest first. Days on which nothing happened are among them."""
    today = datetime.now().astimezone()
    found = {
        day: DayCounts(day) for day in (f"{today - timedelta(days=n):%Y-%m-%d}" for n in range(number - 1, -1, -1))
    }
    first = today - timedelta(days=number - 1)
    since = ids.from_ms(int(first.replace(hour=0, minute=0, second=0, microsecond=0).timestamp() * 1000))
    for kind in ("sessions", "prompts", "observations", "summaries"):
        for day, count in _by_day(activity.rows(tx, kind, project, since)).items():
            if day in found:
                setattr(found[day], kind, count)
    for told in contexts.by_hour(tx, project, since):
        if (day := local_day(told.hour)) in found:
            found[day].contexts += told.contexts
            found[day].tokens_told_estimate += told.tokens
    for cost in activity.costs(tx, project, f"{first:%Y-%m-%d}"):
        if cost.day in found:
            found[cost.day].tokens_spent, found[cost.day].cost_micros = cost.tokens, cost.cost_micros or 0
            found[cost.day].calls_without_price = cost.calls_without_price
    return [asdict(day) for day in found.values()]


def _by_day(hours: Iterable[HourCount]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for hour in hours:
        counted[local_day(hour.hour)] += hour.count
    return counted


def local_day(hour: str) -> str:
    """Return the local day of an hour in UTC, such as 2026-02-21T03; the day in UTC if it is not a time."""
    try:
        return f"{datetime.fromisoformat(f'{hour}:00').replace(tzinfo=UTC).astimezone():%Y-%m-%d}"
    except (ValueError, OverflowError):
        return hour[:10]


def where_learned(tx: Tx, project: str) -> dict[str, list[dict[str, Any]]]:
    """Return the files, projects and types with the most observations."""
    found: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], str] = {}
    for one in activity.files(tx, project, OBSERVATIONS):
        for path in one.paths:
            found[one.project, path] += 1
            last.setdefault((one.project, path), one.created_at)
    files = [
        {"path": key[1], "project": key[0], "observations": count, "last_at": last[key]}
        for key, count in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:LISTED]
    ]
    known = [row for row in projects.listed(tx, 500) if project in ("", row["name"], row["key"])]
    known.sort(key=lambda row: (-row["observations"], row["name"]))
    types = Counter(counts.observation_types(tx, project)).most_common()
    listed = [{"type": name, "observations": count} for name, count in types]
    return {"files": files, "projects": known[:LISTED], "types": listed}


def waiting(tx: Tx) -> dict[str, Any]:
    """Return how many seconds passed from the end of each of the last rounds until it was remembered."""
    ended = activity.rounds(tx, ROUNDS, EVENTS)
    waited = [max(ids.stored_ms(observed) - ids.stored_ms(at), 0) / 1000 for at, observed in ended]
    rounds = [{"at": at, "seconds": seconds} for (at, _), seconds in zip(ended, waited, strict=True)]
    ordered = sorted(waited)
    return {"p50_s": percentile(ordered, 50), "p95_s": percentile(ordered, 95), "rounds": rounds}


def percentile(ordered: list[float], percent: int) -> float | None:
    """Return the least value that so many percent of the values do not exceed."""
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)] if ordered else None
