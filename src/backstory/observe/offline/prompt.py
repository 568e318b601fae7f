"""What a prompt asks for, without greetings, pasted output and the client's own words."""

from __future__ import annotations

import re

from backstory.observe.offline.select import is_pasted
from backstory.observe.offline.text import blocks, clip, tidy, without_reminders
from backstory.pasted import without_output

_FILLER = re.compile(
    r"(?:(?:hey|hi|hello|ok(?:ay)?|so|well|hmm+|ah|oh|yes|yep|yeah|sure|great|perfect|thanks|thank you|cool|nice|"
    r"please|done|excellent|good)\b[\s,.!:;-]*){1,4}",
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
    parts = blocks(without_output(text)) or blocks(text)
    spoken = [block.text for block in parts if block.kind != "heading" and not is_pasted(block.text)]
    whole = " ".join(" ".join(spoken or [block.text for block in parts]).split())
    filler = _FILLER.match(whole)
    if filler and len(whole) - filler.end() > 15:
        whole = whole[filler.end() :]
    return clip(tidy(whole, 4 * limit), limit)


def _typed_command(prompt: str) -> str:
    """A slash command as it was typed."""
    name = re.search(r"<command-name>([^<]{1,100})", prompt[:4000])
    given = re.search(r"<command-args>([^<]{1,4000})", prompt[:8000])
    return " ".join(match.group(1).strip() for match in (name, given) if match)
