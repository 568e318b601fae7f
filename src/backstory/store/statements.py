"""What an observation states of a subject, so that a later one with another value takes its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_ARTICLE = re.compile(r"^(?:the|a|an|our|my|your|their|its|this|that|all)\s+", re.IGNORECASE)
#: `Use Redis for the session cache`, `Switched from Redis to Postgres for the session cache`
_CHOICE = re.compile(
    r"^(?:decision:\s*)?(?:we(?:'ll| will)?\s+|i(?:'ll| will)?\s+)?(?:now\s+|decided to\s+|chose to\s+|agreed to\s+)?"
    r"(?:us(?:e|ed|es|ing)|cho(?:o)?se|chosen|adopt(?:ed)?|pick(?:ed)?|go(?:ing)? with|went with|prefer(?:red)?|"
    r"ke(?:ep|pt)|(?:switch|mov|migrat|chang)(?:e|ed|ing)?(?:\s+from\s+.{1,60}?)?\s+to|replaced?\s+.{1,60}?\s+(?:with|by))\s+"
    r"(?P<value>.{1,60}?)(?:,? (?:instead of|rather than|not|over)\s+.{1,60}?)?\s+(?:for|as)\s+"
    r"(?P<subject>[^.;:()]{3,80})",
    re.IGNORECASE,
)
#: `The staging database is db3`, `retry_seconds = 5`, `the default branch was changed to main`
_VALUE = re.compile(
    r"^(?:decision:\s*)?(?P<subject>[^=:.;?!]{2,80}?)(?:"
    r"\s(?:is|are|was|were|has been|have been)?\s*(?:now\s+)?"
    r"(?:set|changed|moved|raised|lowered|renamed|switched)\s+to\s|"
    r"\s(?:is|are)(?:\s+now)?\s|\s(?:now\s+)?(?P<verb>defaults?\s+to|uses?|lives?\s+(?:in|at)|runs?\s+on|listens?\s+on)\s|"
    r"\s?:?=\s?)\s*(?P<value>\S.{0,60}?)[.!]?$",
    re.IGNORECASE,
)
#: What reads as a value: a number, a name, a path, something quoted.
_NAMED = re.compile(r"\d|[`\"'/_@]|\w\.\w|^[A-Z]|^(?:on|off|true|false|yes|no|enabled|disabled)$")
#: What has a value, so that any word may be it: `the default branch is main`.
_ROLES = frozenset(
    "address backend branch broker command convention database date deadline default directory editor engine "  # noqa: SIM905
    "environment folder format framework host indentation language level library license limit maintainer mode model "
    "name owner policy port provider queue region registry reviewer runner store strategy style timeout tool url "
    "version".split()
)
#: Words that begin a sentence about something else than its first words.
_NO_SUBJECT = frozenset("it this that there here he she they we you i what which who how why when where if".split())  # noqa: SIM905
_WORD = re.compile(r"[\w./@-]+")


def stated(text: str) -> tuple[str, str] | None:
    """The subject of a sentence and what it says of it, where it is one that a later sentence could contradict."""
    text = " ".join(text.split())[:240]
    if choice := _CHOICE.match(text):
        return _known(f"for {_key(choice['subject'])}", choice["value"])
    found = _VALUE.match(text)
    if found is None or len(found["value"].split()) > 4:
        return None
    subject = _key(found["subject"])
    if not _NAMED.search(found["value"]) and subject.rpartition(" ")[2] not in _ROLES:
        return None
    # `the worker runs on Python` says nothing against `the worker listens on port 1`.
    return _known(" ".join((subject, *(found["verb"] or "").lower().split())), found["value"])


def _known(subject: str, value: str) -> tuple[str, str] | None:
    words = subject.removeprefix("for ").split()
    said = " ".join(_WORD.findall(value.lower()))
    if not words or not said or words[0] in _NO_SUBJECT or not any(len(word) > 2 for word in words):
        return None
    return subject[:120], said[:120]


def _key(subject: str) -> str:
    """One form for a subject, however it is written."""
    before = None
    while before != subject:
        before, subject = subject, _ARTICLE.sub("", subject.strip())
    return " ".join(_WORD.findall(subject.lower()))


def of(type_: str, title: str, facts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What an observation states: its title, and the first fact of a decision. Its other facts are details, and a
    detail that has changed does not make the whole of it history."""
    seen = set()
    for text in (title, *(facts[:1] if type_ == "decision" else ())):
        found = stated(text)
        if found and found[0] not in seen:
            seen.add(found[0])
            yield found
