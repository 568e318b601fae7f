"""Cleans entries of transcripts so that an agent can still resume them: ids, signatures and the shape stay."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from backstory import gate, privacy
from backstory.private_tags import free_key

#: In place of a text that is private as a whole. A model rejects empty texts, and `gate` removes this one again.
PRIVATE = "<private></private>"
#: In place of a block that is worth nothing once it is changed: a signed one, an image.
_REDACTED = {"type": "text", "text": "[redacted]"}
#: Maximum levels of nesting. What is below is dropped.
MAX_DEPTH = 64
#: Fields that the agent fills by itself: ids, times, kinds, names. An unclosed tag in a text does not hide them.
_STRUCTURE = frozenset(
    (
        *("type", "subtype", "role", "id", "uuid", "parentUuid", "logicalParentUuid", "leafUuid", "messageId"),
        *("sessionId", "session_id", "agentId", "requestId", "promptId", "timestamp", "version", "userType", "slug"),
        *("tool_use_id", "toolUseID", "parentToolUseID", "sourceToolUseID", "sourceToolAssistantUUID", "toolUseId"),
        *("cwd", "gitBranch", "entrypoint", "model", "stop_reason", "permissionMode", "promptSource", "turnOrigin"),
        *("name", "signature", "media_type", "level", "operation", "service_tier", "hookEvent", "hookName"),
    )
)
#: Fields that hold what a tool was given or returned. Their keys and numbers may be private, too.
_OPAQUE = frozenset(("input", "toolUseResult"))
#: Blocks that may be changed. Others become `_REDACTED`.
_CHANGEABLE = frozenset(("text", "tool_use", "tool_result"))
#: Blocks that the model has signed, or encrypted.
_SIGNED = frozenset(("thinking", "redacted_thinking"))
_BASE64 = re.compile(r"[A-Za-z0-9+/_=-]+", re.ASCII)
#: What an id or a time of the agent looks like. No secret does.
_ID = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?:msg|req|toolu|srvtoolu)_[A-Za-z0-9]{8,64}"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|\+00:00)?",
    re.ASCII,
)


def clean(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry without private text and secrets. Cleaning is idempotent."""
    given = dict(entry)
    try:
        stripped: dict[str, Any] = privacy.strip_json(_untagged(given))
    except (ValueError, RecursionError):
        return blank(given)  # nested too deeply to be read
    if stripped == given:
        return given
    mended: dict[str, Any] = _mended(given, stripped)
    return mended


def dumped(entry: Mapping[str, Any]) -> str:
    """Return an entry as a line of JSON. Lone surrogates stay escaped, because a database rejects them."""
    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(entry, separators=(",", ":")) if gate.ODD.search(text) else text


def blank(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of which only the structure is left: an entry of a private round."""
    given = {name: PRIVATE if name in _OPAQUE else value for name, value in entry.items()}
    message = given.get("message")
    if isinstance(message, dict) and isinstance(message.get("content"), list):
        given["message"] = message | {"content": [_blank_block(block) for block in message["content"]]}
    made: dict[str, Any] = _walk(given, _to_private, _to_clean_name)
    return made


def changed(entry: Mapping[str, Any], change: Callable[[str], str], tool_uses: Collection[str]) -> dict[str, Any]:
    """Return an entry with its texts changed, and without what some tool uses were given and returned."""
    given = _without_tool_uses(dict(entry), tool_uses) if tool_uses else dict(entry)
    made = _walk(given, lambda value: change(value) if isinstance(value, str) else value)
    mended: dict[str, Any] = given if made == given else _mended(given, made)
    return mended


def _without_tool_uses(entry: dict[str, Any], tool_uses: Collection[str]) -> dict[str, Any]:
    message = entry.get("message")
    blocks = message.get("content") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(blocks, list):
        return entry
    found = [isinstance(each, dict) and (each.get("id") or each.get("tool_use_id")) in tool_uses for each in blocks]
    if not any(found):
        return entry
    left = [_blank_block(block) if is_found else block for block, is_found in zip(blocks, found, strict=True)]
    result = {"toolUseResult": PRIVATE} if "toolUseResult" in entry else {}
    return entry | {"message": message | {"content": left}} | result


def values(entry: Mapping[str, Any]) -> list[Any]:
    """Return what an entry says: its texts, and what a tool was given or returned as a whole."""
    found: list[Any] = []

    def collect(value: Any) -> Any:
        found.append(value)
        return value

    _walk({name: value for name, value in entry.items() if name not in _OPAQUE}, collect)
    message = entry.get("message")
    blocks = message.get("content") if isinstance(message, dict) else None
    inputs = [block.get("input") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    return [value for value in (*found, entry.get("toolUseResult"), *inputs) if isinstance(value, str | dict) and value]


def _blank_block(block: Any) -> dict[str, Any]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "tool_use":
        return {**block, "input": {}}
    return {**block, "content": PRIVATE} if kind == "tool_result" else {"type": "text", "text": PRIVATE}


def _to_private(value: Any) -> Any:
    return (PRIVATE if value.strip() else value) if isinstance(value, str) else 0


def _to_clean_name(value: str) -> str:
    return value if _ID.fullmatch(value) else gate.text(value)


def _untagged(entry: dict[str, Any]) -> dict[str, Any]:
    """Remove private text. A tag hides everything up to its closing tag, but not the structure in between."""
    leaves: list[Any] = []

    def collect(value: Any) -> Any:
        leaves.append(value)
        return value

    _walk(entry, collect)
    shown = privacy.strip_json(leaves, secrets=False)
    if shown is leaves:
        return entry
    visible = iter(shown)
    made: dict[str, Any] = _walk(entry, lambda value: next(visible))
    return made


def _walk(
    value: Any,
    change: Callable[[Any], Any],
    rename: Callable[[str], str] = lambda value: value,
    name: str = "",
    is_opaque: bool = False,
    depth: int = 0,
) -> Any:
    """Rebuild a value: `change` what was said or returned, in document order, and `rename` the structure."""
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        return None
    if isinstance(value, list):
        return [_walk(item, change, rename, name, is_opaque, depth + 1) for item in value]
    if isinstance(value, dict):
        made: dict[str, Any] = {}
        for key, item in value.items():
            shown = free_key(str(change(key)) if is_opaque else rename(key), key, made, value)
            made[shown] = _walk(item, change, rename, key, is_opaque or key in _OPAQUE, depth + 1)
        return made
    if isinstance(value, str):
        is_structure = name in _STRUCTURE and not is_opaque and not any(sign in value for sign in "<&\\＜﹤")
        return rename(value) if is_structure else change(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return change(value) if is_number and is_opaque else value


def _mended(given: Any, stripped: Any, name: str = "", is_opaque: bool = False) -> Any:
    """Return what was stripped with the ids as they were, without empty texts, and without blocks that are broken."""
    if given == stripped:
        return stripped
    if isinstance(given, dict) and isinstance(stripped, dict) and len(given) == len(stripped):
        pairs = zip(given.items(), stripped.items(), strict=True)
        made = {shown: _mended(old, new, key, is_opaque or key in _OPAQUE) for (key, old), (shown, new) in pairs}
        is_block = name == "content" and not is_opaque and given.get("type") not in _CHANGEABLE
        return _mended_block(given, made) if is_block else made
    if isinstance(given, list) and isinstance(stripped, list) and len(given) == len(stripped):
        return [_mended(old, new, name, is_opaque) for old, new in zip(given, stripped, strict=True)]
    if isinstance(given, str) and isinstance(stripped, str):
        if name in _STRUCTURE and not is_opaque and _ID.fullmatch(given):
            return given
        return PRIVATE if given.strip() and not stripped.strip() else stripped
    return stripped


def _mended_block(given: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """Return a block as it was if only its signature was taken for a secret."""
    for field in ("signature", "data") if given.get("type") in _SIGNED else ():
        if isinstance(signed := given.get(field), str) and _BASE64.fullmatch(signed):
            made[field] = signed
    return given if made == given else dict(_REDACTED)
