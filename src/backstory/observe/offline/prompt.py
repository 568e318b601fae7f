"""What a prompt asks for, without greetings, pasted output and the client's own words."""

from __future__ import annotations

import re

from backstory.observe.offline.select import is_pasted
from backstory.observe.offline.text import blocks, clip, tidy, without_reminders

_FILLER = re.compile(
    r"(?:(?:hey|hi|hello|ok(?:ay)?|so|well|hmm+|ah|oh|yes|yep|yeah|sure|great|perfect|thanks|thank you|cool|nice|"
    r"please|done|excellent|good)\b[\s,.!:;-]*){1,4}",
    re.IGNORECASE,
)
_AGREED = re.compile(
    r"(?:y|yes|yep|yeah|yup|ok|okay|sure|please|do|it|that|this|go|ahead|on|for|continue|proceed|let'?s|sounds|"
    r"good|great|perfect|thanks|thank you|both|all|commit|push|"
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


def asked(prompt: str, limit: int) -> str:
    """Return what the user asked, whole where it fits."""
    text = _typed_command(prompt) if prompt.lstrip().startswith("<command-") else without_reminders(prompt[:20_000])
    if text.lstrip().startswith(_NOT_ASKED):
        return ""
    parts = blocks(text)
    spoken = [block.text for block in parts if block.kind != "heading" and not is_pasted(block.text)]
    whole = " ".join(" ".join(spoken or [block.text for block in parts]).split())
    filler = _FILLER.match(whole)
    if filler and len(whole) - filler.end() > 15:
        whole = whole[filler.end() :]
    return clip(tidy(whole, 4 * limit), limit)


def is_agreement(prompt: str) -> bool:
    """Whether a prompt says nothing to someone who was not there: `yes`, `commit`, `go ahead`."""
    text = asked(prompt, 200)
    return len(text) < 60 and bool(_AGREED.match(text))


def _typed_command(prompt: str) -> str:
    """A slash command as it was typed."""
    name = re.search(r"<command-name>([^<]{1,100})", prompt[:4000])
    given = re.search(r"<command-args>([^<]{1,4000})", prompt[:8000])
    return " ".join(match.group(1).strip() for match in (name, given) if match)
