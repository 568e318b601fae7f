"""The assistant's last message, read: its conclusion, its points, its choices, and what it leaves open."""

from __future__ import annotations

import re

from backstory.observe.text import Block, blocks, sentences, tidy

# Openings that say nothing: an exclamation, an announcement, or what the assistant is about to do.
_FLUFF = re.compile(
    r"(?:perfect|great|excellent|done|good|awesome|sure|yes|no worries|ok(?:ay)?|all (?:done|set|good|green|"
    r"checks|tests)|"
    r"you(?:'re| were| are) (?:absolutely )?(?:right|correct)|absolutely|got it|understood|fixed|clean|nice|"
    r"looks good|that worked|stopped|"
    r"success(?:ful)?|complete|correct|exactly|right|makes sense|(?:good|great) (?:question|point|catch|news|idea|"
    r"call)|"
    r"found (?:it|the|a|an)|i (?:found|see|can see|understand)|it'?s (?:actually|quite|simple)|"
    r"no response)\b[^.!`\d/]{0,60}[.!]+$|"
    r"(?:now )?(?:i (?:now )?(?:have|understand)|let me (?!know)|i'?ll |i will |i'?m (?:going to|using) |"
    r"looking at|based on my|"
    r"i(?:'ve| have) (?:thoroughly |now |carefully )?(?:completed?|explored|analy[sz]ed|reviewed|traced)|"
    r"(?:🤖 )?generated with|co-authored-by)",
    re.IGNORECASE,
)
_NEXT_HEADING = re.compile(
    r"\b(?:next|remaining|todo|to do|follow[- ]?ups?|open (?:questions?|points?|issues)|outstanding|left|pending|"
    r"future)\b|下一步|次の|다음",
    re.I,
)
_NEXT = re.compile(
    r"\b(?:next steps?|to-?do|remain(?:s|ing)|still (?:needs?|to be|open|fail\w*|missing|requires?)|you (?:may|"
    r"might) (?:want|need)|you(?:'ll| will)? (?:need|have) to|"
    r"(?:should|shall) (?:i|we)|want me to|would you like|do you want|not yet|(?:is|are) pending|left to do|"
    r"follow-?up|ready (?:to|for) (?:commit|push|review|merge|test)|"
    r"ready when|once you|before (?:merging|releasing|deploying))\b|下一步|还需要|次に|残り|다음 단계",
    re.IGNORECASE,
)
_COURTESY = re.compile(r"let me know if|feel free|happy to help|any (?:other )?questions|anything else", re.I)
_CHOSE = re.compile(
    r"\b(?:(?:i|we)(?:'ve| have)? (?:chose|decided|opted|picked|went with|settled on)|chosen because|"
    r"decision(?: was)?:|decided (?:to|against|on)|opted (?:for|to)|in favou?r of|trade-?offs?:)\b|"
    r"决定|选择了|ことにしました",
    re.I,
)
_OVER = re.compile(r"\b(?:instead of|rather than|over using|not using)\b", re.I)
_OURS = re.compile(
    r"\b(?:i|we|i've|we've|we'll|i'll|let's)\b|^(?:used?|using|kept|switched|made|put|moved|went)\b", re.I
)
_GROUND = re.compile(
    r"\b(?:because|since|so that|to (?:avoid|keep|prevent|ensure|preserve|match|allow)|which (?:avoids|keeps|"
    r"prevents|ensures|means)|as (?:it|this|that)|this (?:avoids|keeps|prevents|ensures))\b",
    re.I,
)
_UNDECIDED = re.compile(
    r"\b(?:could|should i|shall|would you|if you|might|may want|recommend|want me|options?|alternatively|"
    r"consider)\b|\?$",
    re.I,
)
_CAUSE = re.compile(
    r"\b(?:root cause|the (?:issue|problem|bug|reason|culprit|cause) (?:is|was|lies|here)|turns? out|caused by|"
    r"happens because|fails? because|because|due to|actually)\b|原因|因为|ため",
    re.I,
)


def conclusion(message: str, limit: int, count: int = 3) -> str:
    """The first sentences that say something; an introduction takes the points it announces with it."""
    found = blocks(message)
    told: list[str] = []
    for at, block in enumerate(found):
        if block.kind == "text":
            told += _saying(block, found, at)
        if len(told) >= count or sum(map(len, told)) > limit * 0.6:
            break
    if not told:
        told = [block.text for block in found if block.kind == "item"][:count] or [block.text for block in found][:1]
    return _fitting(told[:count], limit)


def headline(message: str, limit: int = 100) -> str:
    """The first sentence that tells someone something who was not there; empty if there is none."""
    found = blocks(message)
    said = [
        sentence
        for at, block in enumerate(found[:12])
        if block.kind == "text"
        for sentence in _saying(block, found, at)
    ]
    telling = (sentence for sentence in said if not sentence.endswith(("?", "？")) and _telling(sentence))
    return tidy(next(telling, ""), limit)


def _telling(sentence: str) -> bool:
    # A script without spaces says in fifteen characters what takes forty elsewhere.
    return (
        len(sentence) >= 45
        or "`" in sentence
        or (len(sentence) >= 15 and not sentence.isascii() and " " not in sentence)
    )


def _saying(block: Block, found: list[Block], at: int) -> list[str]:
    """The sentences of a paragraph that say something by themselves or with the points after them."""
    kept = [sentence for sentence in sentences(block.text) if not _FLUFF.match(sentence)]
    if kept and kept[-1].endswith((":", "：")):
        points = _points_after(found, at)
        kept[-1:] = [f"{kept[-1]} {'; '.join(points)}"] if points else []
    return kept


def _fitting(told: list[str], limit: int) -> str:
    text = told[0] if told else ""
    for sentence in told[1:]:
        if len(text) + len(sentence) + 1 > limit:
            break
        text = f"{text} {sentence}"
    return tidy(text, limit)


def _points_after(found: list[Block], at: int) -> list[str]:
    points = []
    for block in found[at + 1 : at + 5]:
        if block.kind != "item":
            break
        points.append(sentences(block.text)[0].rstrip(".:") if block.text else "")
    return [point for point in points if point][:3]


def points(message: str) -> list[str]:
    """The list items of a message that can stand alone, but not its next steps."""
    return [
        tidy(f"{block.under}: {block.text}" if len(block.text) < 60 and 3 < len(block.under) < 60 else block.text, 200)
        for block in blocks(message)
        if block.kind == "item" and len(block.text) > 20 and not _NEXT_HEADING.search(block.under)
    ]


def decisions(message: str) -> list[str]:
    """Sentences that state a choice and its reason."""
    found = []
    for block in blocks(message):
        for sentence in sentences(block.text) if block.kind != "heading" else []:
            weighed = _OVER.search(sentence) and _GROUND.search(sentence) and _OURS.search(sentence)
            chosen = _CHOSE.search(sentence) or weighed
            if chosen and 30 < len(sentence) < 500 and not _UNDECIDED.search(sentence):
                found.append(sentence)
    return list(dict.fromkeys(found))


def causes(message: str) -> list[str]:
    """Sentences that say why something was as it was."""
    return [
        sentence
        for block in blocks(message)
        if block.kind != "heading" and not _NEXT_HEADING.search(block.under)
        for sentence in sentences(block.text)
        if _CAUSE.search(sentence) and len(sentence) > 30 and not sentence.endswith(("?", ":"))
    ]


def open_points(message: str) -> list[str]:
    """What the message leaves to be done or answered."""
    found: list[str] = []
    told = blocks(message)
    for block in told:
        if block.kind == "heading":
            continue
        if block.kind == "item" and _NEXT_HEADING.search(block.under):
            found.append(block.text)
            continue
        found += [
            sentence for sentence in sentences(block.text) if _NEXT.search(sentence) and not _COURTESY.search(sentence)
        ]
    last = next((block.text for block in reversed(told) if block.kind != "heading"), "")
    if last.endswith(("?", "？")) and (question := sentences(last)[-1]) not in found and not _COURTESY.search(question):
        found.append(question)
    return list(dict.fromkeys(sentence for sentence in found if len(sentence) > 8))
