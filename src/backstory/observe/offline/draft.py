"""Drafts: observations while they are written, before they are bounded and chosen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from backstory.model import CONCEPTS, TYPES, Observation
from backstory.observe.offline.acts import Act
from backstory.observe.offline.text import blocks, lead, sentences, tidy, without_reminders

TITLE, SUBTITLE, NARRATIVE, FACT, FACTS, FILES = 100, 160, 600, 200, 6, 40


@dataclass(slots=True)
class Draft:
    """An observation to be: rank 0 is always told, higher ones only while there is room."""

    rank: int
    type: str
    title: str
    subtitle: str = ""
    narrative: str = ""
    facts: list[str] = field(default_factory=list)
    concepts: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    events: list[int] = field(default_factory=list)  #: ids of events that are no acts, such as a stop

    @property
    def event_ids(self) -> tuple[int, ...]:
        """The events to be told now that it came from."""
        return tuple(dict.fromkeys([*(act.id for act in self.acts if act.fresh), *self.events]))

    def told(self) -> Observation:
        """The observation, safe and within its bounds."""
        facts = dict.fromkeys(tidy(fact, FACT) for fact in self.facts)
        return Observation(
            type=self.type if self.type in TYPES else "change",
            title=tidy(self.title, TITLE),
            subtitle=tidy(self.subtitle, SUBTITLE),
            narrative=tidy(self.narrative, NARRATIVE),
            facts=tuple(fact for fact in facts if fact)[:FACTS],
            concepts=tuple(name for name in CONCEPTS if name in self.concepts),
            files_read=_paths(path for path in self.read if path not in self.modified),
            files_modified=_paths(self.modified),
            event_ids=self.event_ids,
        )


def _paths(paths: Iterable[str]) -> tuple[str, ...]:
    unique = dict.fromkeys(tidy(path, 400) for path in paths)
    return tuple(path for path in unique if path)[:FILES]


_FILLER = re.compile(
    r"(?:(?:hey|hi|hello|ok(?:ay)?|so|well|hmm+|ah|oh|yes|yep|yeah|sure|great|perfect|thanks|thank you|cool|nice|"
    r"please|done|excellent|good)\b[\s,.!:;-]*){1,4}",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`]{0,200}`")
# Lines of code, logs and shells that people paste around their question.
_PASTED = re.compile(r"^\S+:\d+:\d+|^\$ |^[A-Z]+ \d{4}-|^(?://|\+\s|-\s)")
_SYMBOLS = frozenset("{}();=<>[]|\\+%$&*")
_AGREED = re.compile(
    r"(?:y|yes|yep|yeah|yup|ok|okay|sure|please|do|it|that|this|go|ahead|on|for|continue|proceed|let'?s|sounds|"
    r"good|great|perfect|thanks|thank you|both|all|"
    r"right|correct|exactly|now|then|so|looks|lgtm|the|and|is|fine|cool|nice|one|first|second|option|no|\d+|"
    r"[\s,.!?:)(]){1,12}$",
    re.IGNORECASE,
)
_NOT_ASKED = (
    "<command-",
    "<local-command",
    "Caveat:",
    "This session is being continued",
    "[Request interrupted",
    "<task-notification",
)


def asked(prompt: str, limit: int = 200) -> str:
    """What the user asked, in a sentence or two, without greetings and pasted output."""
    text = _command_arguments(prompt) if prompt.lstrip().startswith("<command-") else without_reminders(prompt[:20_000])
    if text.lstrip().startswith(_NOT_ASKED):
        return ""
    told = blocks(text)
    spoken = [block.text for block in told if block.kind != "heading" and not _pasted(block.text)]
    parts = spoken or [block.text for block in told]
    whole = " ".join(" ".join(parts).split())
    filler = _FILLER.match(whole)
    if filler and len(whole) - filler.end() > 15:
        whole = whole[filler.end() :]
    return lead(whole, limit)


def _pasted(text: str) -> bool:
    sample = _CODE.sub("", text[:300])
    dense = sum(letter in _SYMBOLS for letter in sample) > 0.07 * len(sample)
    return bool(_PASTED.match(sample)) or (dense and len(sample) > 12)


def purpose(prompt: str) -> str:
    """What the user asked, where it says something to someone who was not there: a mere "yes" does not."""
    told = asked(prompt)
    return "" if len(told) < 60 and _AGREED.match(told) else told


def _command_arguments(prompt: str) -> str:
    """A slash command as it was typed."""
    name = re.search(r"<command-name>([^<]{1,100})", prompt[:4000])
    given = re.search(r"<command-args>([^<]{1,4000})", prompt[:8000])
    return " ".join(match.group(1).strip() for match in (name, given) if match)


# The first of these words in a request decides; words that only set the scene ("error", "wrong") do not count as a fix.
_INTENTS = {
    "bugfix": re.compile(
        r"\b(?:fix(?:es|ed|ing)?|bug(?:s|gy)?|broken|breaks|regress\w*|crash\w*|fail(?:s|ing|ed|ures?)|"
        r"doesn'?t work|not working|"
        r"panics?|debug|repair|hangs?|leaks?)\b|修复|修正|バグ|エラー|오류|버그|고쳐",
        re.IGNORECASE,
    ),
    "refactor": re.compile(
        r"\b(?:refactor\w*|rename\w*|extract|move|simplif\w*|clean ?up|dedup\w*|restructure|reorgani[sz]e|split|"
        r"inline|consolidate)\b"
        r"|duplicat\w*|重构|リファクタ|리팩토링",
        re.IGNORECASE,
    ),
    "feature": re.compile(
        r"\b(?:add(?:s|ing)?|implement\w*|support|create|introduce|extend|enable)\b|添加|新增|实现|追加|実装|추가|구현",
        re.IGNORECASE,
    ),
    "change": re.compile(
        r"\b(?:change|update|rewrite|remove|delete|drop|document|bump|upgrade|revert|replace|adjust|use)\b",
        re.IGNORECASE,
    ),
}


def intent(prompt: str) -> str:
    """What kind of change a prompt asks for: bugfix, refactor, feature, or change where it does not say."""
    ask = prompt[:600]
    marks = [(match.start(), kind) for kind, words in _INTENTS.items() if (match := words.search(ask))]
    return min(marks)[1] if marks else "change"


_BECAUSE = re.compile(
    r"\b(?:because|so that|since|due to|the (?:issue|problem|bug|root cause)|caused by|root cause|turns? out)\b|"
    r"原因|因为|なぜなら|ため",
    re.I,
)


def reason(message: str, names: Iterable[str]) -> str:
    """The sentence of a message that says most about these files or symbols."""
    wanted = [name for name in names if len(name) > 3]
    best, told = 0, ""
    for block in blocks(message):
        if block.kind == "heading":
            continue
        for sentence in sentences(block.text) if block.kind == "text" else [block.text]:
            score = sum(2 for name in wanted if name in sentence) + bool(_BECAUSE.search(sentence))
            if (
                score > best
                and score >= 2
                and not sentence.endswith((":", "?"))
                and len(_CODE.sub("", sentence).split()) > 3
            ):
                best, told = score, sentence
    return told
