"""Makes the title of a session from what was asked and what came of it. Pure functions without I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence

from backstory.text import cut, one_line, words_of

#: Characters of a title.
MAX_TITLE = 80
#: Characters of a prompt that are read.
MAX_READ = 1000
#: Characters. A shorter sentence is followed by the next one.
SHORT = 30
#: Words of a request, at least.
MIN_WORDS = 3
#: Of these, words that tell what it is about.
MIN_TELLING = 2
#: Words that a request may consist of without telling what it is about.
_VAGUE = frozenset(
    "able about add added again another anything around back before better branch bug build can case change "  # noqa: SIM905
    "changed changes check cleanup code codebase command commit commits continue could current currently "
    "different directory doing done during effort error errors every everything explain failing feedback file "
    "files find first fix fixed following get getting give going good got happened happens have help here how "
    "idea implement issue issues just know last latest let like local look made main make merge more name need "
    "needs new next now okay old once one open other plan please possible problem project pull push put question "
    "really request review run same see should show some something start still stuff summary sure take task tell "
    "test tests thanks thing things think thoughts through time try understand update use using verify want what "
    "when where which while why work working works would write wrong yep yes".split()
)
_PLEASANTRIES = re.compile(
    r"(?:(?:hi|hello|hey|ok(?:ay)?|so|now|well|great|perfect|thanks|thank you|yes|yep|no|alright|and|also|please|pls)"
    r"\b[\s,.!:;-]+)*"
    r"(?:(?:(?:can|could|would|will) (?:you|we)(?: please| also| maybe| just| now)*(?: help me(?: to)?)?"
    r"|(?:i['\u2019]d|i would) like (?:you )?to|i (?:want|need) (?:you )?to|help me(?: to)?"
    r"|let['\u2019]?s(?: now| also)?|your task is to|please|pls)\s+)?",
    re.IGNORECASE,
)
_PLAN = re.compile(r"(?:please )?implement the following plan:?\s*", re.IGNORECASE)
_HEADING = re.compile(r"^\s*#{1,6}\s+(?:(?:implementation )?plan:?\s+)?(.+?)\s*#*\s*$", re.IGNORECASE | re.MULTILINE)
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKUP = re.compile(r"\*{1,3}|`+|^\s*(?:[-•>]|\d+[.)])\s+")
#: How lines begin that were copied from a terminal.
_PASTED = ("❯", "$ ", "% ", "✓", "✗", "⨯")
_ADDRESS = re.compile(r"https?://\S+")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|(?<=[。！？])")


def make(prompts: Sequence[str], done: str) -> str:
    """Return the title of a session; empty if nothing is known of it.

    `prompts` are the first ones, and `done` is the most important observation. The title is what was asked first. If
    that is vague, what was done follows it.
    """
    requests = [request for request in map(_request, prompts) if request]
    asked = next((request for request in requests if len(request.split()) >= MIN_WORDS), "")
    if asked and not _is_vague(asked):
        return cut(asked, MAX_TITLE)
    if done := one_line(done).rstrip("."):
        return cut(f"{asked.rstrip('?.!:')}: {done}" if asked else done, MAX_TITLE)
    return cut(
        next((request for request in requests if not _is_vague(request)), asked or "".join(requests[:1])), MAX_TITLE
    )


def _request(prompt: str) -> str:
    """Return what a prompt asks for in one sentence, without politeness and markup.

    It is the first sentence that tells what it is about: `Look at this: the total is wrong` asks about the total.
    """
    text = prompt[:MAX_READ].strip()
    if plan := _PLAN.match(text):
        text = text[plan.end() :]
        if heading := _HEADING.search(text):
            return _tidy(heading[1])
    sentences = _sentences(_FENCED.sub(" ", text))
    telling = (sentence for sentence in sentences if len(sentence.split()) >= MIN_WORDS and not _is_vague(sentence))
    return next(telling, sentences[0] if sentences else "")


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text. A short one is joined with the next one of its line."""
    sentences = []
    for line in (_tidy(line) for line in text.splitlines() if not line.startswith(_PASTED)):
        sentence = ""
        for part in _SENTENCE_END.split(line[_end_of_pleasantries(line) :]):
            sentence = f"{sentence} {part}".strip()
            if len(sentence) >= SHORT:
                sentences.append(sentence)
                sentence = ""
        sentences.append(sentence)
    return [_titled(sentence) for sentence in sentences if any(char.isalnum() for char in sentence)]


def _titled(sentence: str) -> str:
    """Return a sentence as a title: without its end, and with a capital letter if it begins with a word."""
    sentence = sentence.rstrip(" .:;,!?")
    first = sentence.partition(" ")[0]
    return sentence[:1].upper() + sentence[1:] if first.isalpha() else sentence


def _end_of_pleasantries(line: str) -> int:
    match = _PLEASANTRIES.match(line)
    return match.end() if match and match.end() < len(line) else 0


def _tidy(line: str) -> str:
    return one_line(_MARKUP.sub("", line.lstrip("# ")))


def _is_vague(request: str) -> bool:
    """Whether a request consists of words that fit any session. The words of other scripts are not known."""
    if any(char.isalpha() and not char.isascii() for char in request):
        return False
    return len(words_of(_ADDRESS.sub(" ", request)) - _VAGUE) < MIN_TELLING
