"""Claude Code's files: settings with their hooks, MCP servers, skills, and our plugin in them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backstory.agents.claude_code.payloads import EVENTS, NAME
from backstory.agents.install import Hook
from backstory.agents.servers import server
from backstory.files import read_regular

#: The largest settings file that is read, in bytes; a project's may be anything.
LARGEST = 16 << 20


def config_dir(home: Path, env: Mapping[str, str]) -> Path:
    return Path(env["CLAUDE_CONFIG_DIR"]) if env.get("CLAUDE_CONFIG_DIR") else home / ".claude"


def roots(home: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Where its transcripts lie."""
    return (config_dir(home, env) / "projects",)


def settings(scope: str, home: Path, cwd: Path, env: Mapping[str, str]) -> Path:
    """The settings file of a scope."""
    return cwd / ".claude" / "settings.json" if scope == "project" else config_dir(home, env) / "settings.json"


def servers(scope: str, home: Path, cwd: Path, env: Mapping[str, str]) -> Path:
    """The file in which it looks for MCP servers."""
    if scope == "project":
        return cwd / ".mcp.json"
    return (Path(env["CLAUDE_CONFIG_DIR"]) if env.get("CLAUDE_CONFIG_DIR") else home) / ".claude.json"


def skill(scope: str, home: Path, cwd: Path, env: Mapping[str, str]) -> Path:
    """Where our skill lies."""
    return settings(scope, home, cwd, env).parent / "skills" / "backstory" / "SKILL.md"


def read_settings(path: Path) -> dict[str, Any]:
    """What a settings file says; nothing where it can't be read."""
    try:
        value = json.loads(read_regular(path, LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def hooks(shim: str) -> dict[str, Hook]:
    """One entry an event. They name the shim alone, so an upgrade never rewrites them."""
    return {
        event: Hook(f"{shim} {NAME} {event}", timeout=5, matcher="*" if event.startswith("PostToolUse") else None)
        for event in EVENTS
    }


def muted(content: bytes) -> str:
    """A sentence if the client is told to run no hooks at all."""
    try:
        off = json.loads(content).get("disableAllHooks") is True
    except (ValueError, AttributeError):
        off = False
    return "But `disableAllHooks` is on in that file: no hook runs, and nothing is remembered." if off else ""


def plugin_hooks() -> dict[str, Any]:
    """The plugin's hooks.json: the same entries, for a shim that may be missing, and a look at the versions."""
    shim = '"${BACKSTORY_DATA_DIR:-$HOME/.backstory}/bin/backstory-hook"'
    # Where the settings have them too, those are enough: whatever is told twice is paid for twice.
    settings = '"${CLAUDE_CONFIG_DIR:-$HOME/.claude}/settings.json"'
    entries = hooks(f"[ ! -x {shim} ] || grep -qs /bin/backstory-hook {settings} || {shim}")
    entries["Setup"] = Hook('sh "${CLAUDE_PLUGIN_ROOT}/hooks/setup.sh"', timeout=10)
    described = "Tells backstory what happens, and a new session what it knows."
    return {"description": described, "hooks": {event: [hook.group] for event, hook in entries.items()}}


def plugin_servers() -> dict[str, Any]:
    """The plugin's .mcp.json: the bridge of whatever installation there is."""
    return {"mcpServers": {"backstory": server()}}


def plugin_enabled(settings: Mapping[str, Any]) -> bool:
    """Whether a settings file switches our plugin on, from whatever marketplace."""
    enabled = settings.get("enabledPlugins")
    return isinstance(enabled, dict) and any(
        name.partition("@")[0] == "backstory" and bool(on) for name, on in enabled.items()
    )


def ours(command: str) -> bool:
    """A shim of ours, wherever the data directory is."""
    return bool(re.search(rf"/bin/backstory-hook['\"]? {NAME} \w+$", command))
