"""Finds what an observation states about a subject. A later one that states another value supersedes it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from backstory.model import ClaimMark, Observation

_DECISION = re.compile(r"^decision:\s*", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|a|an|our|my|your|their|its|this|that|all)\s+", re.IGNORECASE)
#: `Use Redis for the session cache`, `Switched from Redis to Postgres for the session cache`
_CHOICE = re.compile(
    r"^(?:we(?:'ll| will)?\s+|i(?:'ll| will)?\s+)?(?:now\s+|decided to\s+|chose to\s+|agreed to\s+)?"
    r"(?:us(?:e|ed|es|ing)|cho(?:o)?se|chosen|adopt(?:ed)?|pick(?:ed)?|go(?:ing)? with|went with|prefer(?:red)?|"
    r"ke(?:ep|pt)|(?:switch|mov|migrat|chang)(?:e|ed|ing)?(?:\s+from\s+.{1,60}?)?\s+to|replaced?\s+.{1,60}?\s+(?:with|by))\s+"
    r"(?P<value>.{1,60}?)(?:,? (?:instead of|rather than|not|over)\s+.{1,60}?)?\s+(?:for|as)\s+"
    r"(?P<subject>[^.;:()]{3,80})",
    re.IGNORECASE,
)
#: `The staging database is db3`, `retry_seconds = 5`, `the default branch was changed to main`
_VALUE = re.compile(
    r"^(?P<subject>[^=:.;?!]{2,80}?)(?:"
    r"\s(?:is|are|was|were|has been|have been)?\s*(?:now\s+)?"
    r"(?:set|changed|moved|raised|lowered|renamed|switched)\s+to\s|"
    r"\s(?:is|are)(?:\s+now)?\s|\s(?:now\s+)?(?P<verb>defaults?\s+to|uses?|lives?\s+(?:in|at)|runs?\s+on|listens?\s+on)\s|"
    r"\s?:?=\s?)\s*(?P<value>\S.{0,60}?)[.!]?$",
    re.IGNORECASE,
)
#: What was added and may be removed later, with its name in backquotes: Added the `--force` option
_PRESENCE = re.compile(
    r"^(?:(?:i|we)(?:'ve| have)?\s+)?(?:also\s+|now\s+)?"
    r"(?:(?P<there>added|introduced|restored)|removed|deleted|dropped|reverted)\s+(?:(?:the|a|an|back)\s+)?`(?P<name>[^`]{3,60})`",
    re.IGNORECASE,
)
#: What reads as a value: a number, a name, a path, something quoted.
_NAMED = re.compile(r"\d|[`\"'/_@]|\w\.\w|^[A-Z]|^(?:on|off|true|false|yes|no|enabled|disabled)$")
#: Subjects that have a value, which may be any word: `the default branch is main`.
_ROLES = frozenset(
    "address backend branch broker command convention database date deadline default directory editor engine "  # noqa: SIM905
    "environment folder format framework host indentation language level library license limit maintainer mode model "
    "name owner policy port provider queue region registry reviewer runner store strategy style timeout tool url "
    "version".split()
)
#: First words of a sentence that do not name its subject.
_NO_SUBJECT = frozenset("it this that there here he she they we you i what which who how why when where if".split())  # noqa: SIM905
_WORD = re.compile(r"[\w./@-]+")


def stated(text: str) -> tuple[str, str] | None:
    """Return the subject of a sentence and its value; None if a later sentence could not contradict it."""
    text = _DECISION.sub("", " ".join(text.split()))[:240]
    if presence := _PRESENCE.match(text):
        return _normalised(f"`{_key(presence['name'])}", "there" if presence["there"] else "gone")
    if choice := _CHOICE.match(text):
        return _normalised(f"for {_key(choice['subject'])}", choice["value"])
    match = _VALUE.match(text)
    if match is None or len(match["value"].split()) > 4:
        return None
    subject = _key(match["subject"])
    if not _NAMED.search(match["value"]) and subject.rpartition(" ")[2] not in _ROLES:
        return None
    # The verb counts: `the worker runs on Python` does not contradict `the worker listens on port 1`.
    return _normalised(" ".join((subject, *(match["verb"] or "").lower().split())), match["value"])


def _normalised(subject: str, value: str) -> tuple[str, str] | None:
    words = subject.removeprefix("for ").split()
    value = " ".join(_WORD.findall(value.lower()))
    if not words or not value or words[0] in _NO_SUBJECT or not any(len(word) > 2 for word in words):
        return None
    return subject[:120], value[:120]


def _key(subject: str) -> str:
    """Return a subject in lower case, without articles and punctuation."""
    before = None
    while before != subject:
        before, subject = subject, _ARTICLE.sub("", subject.strip())
    return " ".join(_WORD.findall(subject.lower()))


def of(seen: Observation) -> Iterator[tuple[str, str]]:
    """Yield (subject, value) of the title, and of the first fact of a decision. Other facts are details. A proposal
    contradicts nothing as long as nobody agrees."""
    subjects = set()
    first = list(seen.marked_facts)[: seen.type == "decision"]
    for mark, text in ((seen.mark, seen.title), *first):
        statement = None if mark is ClaimMark.PROPOSED else stated(text)
        if statement and statement[0] not in subjects:
            subjects.add(statement[0])
            yield statement
