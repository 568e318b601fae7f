"""The assistant's last message, read: its conclusion, its points, its choices, and what it leaves open."""

from __future__ import annotations

import re

from backstory.observe.offline.text import Block, blocks, sentences, tidy

# Openings that say nothing: an exclamation, an announcement, or what the assistant is about to do.
_FLUFF = re.compile(
    r"(?:perfect|great|excellent|done|good|awesome|sure|yes|no worries|ok(?:ay)?|absolutely|got it|understood|fixed|"
    r"clean|nice|stopped|success(?:ful)?|complete|correct|exactly|right|makes sense|looks good|that worked)\b"
    r"[\s\w,']{0,14}[.!]+$|"
    r"(?:all (?:done|set|good|green|checks|tests)|you(?:'re| were| are) (?:absolutely )?(?:right|correct)|"
    r"(?:good|great) (?:question|point|catch|news|idea|call)|found (?:it|the|a|an)|i (?:found|see|can see|understand)|"
    r"it'?s (?:actually|quite|simple)|no response)\b[^.!`\d/]{0,60}[.!]+$|here(?:'s| is| are)\b.{0,60}[.!]$|"
    r"(?:now )?(?:i (?:now )?(?:have|understand)|let me (?!know)|i'?ll |i will |i'?m (?:going to|using) |looking at|"
    r"based on my|i(?:'ve| have) (?:thoroughly |now |carefully )?(?:completed?|explored|analy[sz]ed|reviewed|traced)|"
    r"(?:🤖 )?generated with|co-authored-by)",
    re.IGNORECASE,
)
_NEXT_HEADING = re.compile(
    r"\b(?:next|remaining (?:work|tasks?|steps?|items?|issues?)|todo|to do|follow[- ]?ups?|outstanding|left to do|"
    r"open (?:questions?|points?|issues)|future work)\b|下一步|次の|다음",
    re.IGNORECASE,
)
_NEXT = re.compile(
    r"\b(?:next steps?|to-?do|remaining (?:work|tasks?|steps?|items?|issues?)|"
    r"still (?:needs?|to be|open|fail\w*|missing|requires?)|you (?:may|might) (?:want|need)|"
    r"you(?:'ll| will)? (?:need|have) to|(?:should|shall) (?:i|we)|want me to|would you like|do you want|not yet|"
    r"(?:is|are) pending|left to do|follow-?up|ready (?:to|for) (?:commit|push|review|merge|test)|ready when|"
    r"before (?:merging|releasing|deploying))\b|下一步|还需要|次に|残り|다음 단계",
    re.IGNORECASE,
)
_NEXT_LABEL = re.compile(r"(?:next(?: steps?)?|to-?do|follow-?ups?|remaining|open)\s*[:：]\s*", re.IGNORECASE)
_VAGUE = re.compile(r"\b(?:this|that|it|these|those|which|both)\b.{0,60}\?$", re.IGNORECASE)
_COURTESY = re.compile(r"let me know if|feel free|happy to help|any (?:other )?questions|anything else", re.I)
_CHOSE = re.compile(
    r"\b(?:(?:i|we)(?:'ve| have)? (?:chose|decided|opted|picked|went with|settled on)|chosen because|"
    r"decided (?:to|against|on)|opted (?:for|to))\b|\b(?:decision(?: was)?|trade-?offs?):|"
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
    r"^(?:root )?cause:|\b(?:root cause|the (?:issue|problem|bug|reason|culprit|cause) (?:is|was|lies|here)|"
    r"turns? out|caused by|happens because|fails? because|because|due to|actually)\b|原因|因为|ため",
    re.I,
)


def conclusion(message: str, limit: int, count: int = 3) -> str:
    """The first sentences that say something; an introduction takes the points it announces with it."""
    found = blocks(message)
    told: list[str] = []
    for at, block in enumerate(found):
        if block.kind == "text":  # a question is what is open, not what was found
            told += [sentence for sentence in _saying(block, found, at) if not sentence.endswith(("?", "？"))]
        if len(told) >= count or sum(map(len, told)) > limit * 0.6:
            break
    if not told:
        rest = [block.text for block in found if block.kind != "heading" and not _FLUFF.match(block.text)]
        told = [block.text for block in found if block.kind == "item"][:count] or rest[:1]
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
    return _long(sentence, 45) or "`" in sentence


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
    """The list items of a message that can stand alone, but not its next steps; short ones with their heading."""
    found = blocks(message)
    title = next((block.text for block in found[:1] if block.kind == "heading"), "")
    told = []
    for block in found:
        if block.kind == "item" and _long(block.text, 20) and not _NEXT_HEADING.search(block.under):
            headed = len(block.text) < 60 and 3 < len(block.under) < 60 and block.under != title
            told.append(tidy(f"{block.under}: {block.text}" if headed else block.text, 200))
    return told


def _long(sentence: str, length: int) -> bool:
    """Whether a sentence is long enough to say something; scripts without spaces need a third of it."""
    return len(sentence) >= length or (len(sentence) * 3 >= length and not sentence.isascii())


def decisions(message: str) -> list[str]:
    """Sentences that state a choice and its reason."""
    found = []
    for block in blocks(message):
        for sentence in sentences(block.text) if block.kind != "heading" else []:
            weighed = _OVER.search(sentence) and _GROUND.search(sentence) and _OURS.search(sentence)
            chosen = _CHOSE.search(sentence) or weighed
            if (
                chosen
                and _long(sentence, 30)
                and len(sentence) < 500
                and sentence[-1] != ":"
                and not _UNDECIDED.search(sentence)
            ):
                found.append(sentence)
    return list(dict.fromkeys(found))


def stated(decision: str) -> str:
    """A decision without the word for it."""
    bare = re.sub(r"^(?:decision(?: was)?|trade-?offs?):\s*", "", decision, flags=re.IGNORECASE)
    return bare[:1].upper() + bare[1:]


def causes(message: str) -> list[str]:
    """Sentences that say why something was as it was."""
    return [
        sentence
        for block in blocks(message)
        if block.kind != "heading" and not _NEXT_HEADING.search(block.under)
        for sentence in sentences(block.text)
        if not _NEXT_LABEL.match(block.text)
        and _CAUSE.search(sentence)
        and _long(sentence, 30)
        and not sentence.endswith(("?", ":"))
    ]


def open_points(message: str) -> list[str]:
    """What the message leaves to be done or answered."""
    found: list[str] = []
    before = ""
    told = [block for block in blocks(message) if block.kind != "heading"]
    for at, block in enumerate(told):
        if block.kind == "item" and _NEXT_HEADING.search(block.under):
            found.append(block.text)
            continue
        if label := _NEXT_LABEL.match(block.text):
            found.append(block.text[label.end() :])
            continue
        for sentence in sentences(block.text):
            asks = at == len(told) - 1 and sentence.endswith(("?", "？")) and block.text.endswith(sentence)
            if (asks or _NEXT.search(sentence)) and not _COURTESY.search(sentence):
                choices = _points_after(told, at) if sentence.endswith(":") else []
                found.append(" ".join([*_context(sentence, before, found), sentence, "; ".join(choices)]).strip())
            before = sentence
    return list(dict.fromkeys(sentence for sentence in found if _long(sentence, 9)))


def _context(sentence: str, before: str, found: list[str]) -> list[str]:
    """What "this" is in "Shall I do this?": the sentence before it, unless that is told already."""
    vague = len(sentence) < 80 and _VAGUE.search(sentence)
    known = any(point.endswith(before) for point in found)
    if not vague or known or len(before) < 25 or before.endswith(":") or _FLUFF.match(before):
        return []
    return [before if before.endswith((".", "!", "?", "。")) else f"{before}."]
