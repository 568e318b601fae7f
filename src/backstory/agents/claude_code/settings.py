"""Claude Code's files: settings with their hooks, MCP servers, skills, and our plugin in them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from backstory.agents import json_hooks, json_servers, skill
from backstory.agents.claude_code.payloads import EVENTS, NAME, START
from backstory.agents.install import InstalledPart, Place
from backstory.agents.json_text import Hook
from backstory.agents.transcripts import Retention
from backstory.files import read_regular

#: Maximum bytes of a settings file. A project's file may be anything.
MAX_BYTES = 16 << 20
#: Days for which Claude Code keeps transcripts by default.
CLEANUP_DAYS = 30
#: event -> which of its calls are wanted. Claude Code prints two lines for every hook of a manual compaction; the start
#: of the session after it tells the same.
MATCHERS = {"PostToolUse": "*", "PostToolUseFailure": "*", "PreCompact": "auto", "PostCompact": "auto"}
MISSING = "Its program is missing, so nothing is remembered. Run `backstory repair`."


def config_dir(home: Path, env: Mapping[str, str]) -> Path:
    return Path(env["CLAUDE_CONFIG_DIR"]) if env.get("CLAUDE_CONFIG_DIR") else home / ".claude"


def roots(home: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of its transcripts."""
    return (config_dir(home, env) / "projects",)


def settings_file(place: Place) -> Path:
    """Return the settings file of a scope."""
    folder = place.cwd / ".claude" if place.scope == "project" else config_dir(place.home, place.env)
    return folder / "settings.json"


def servers_file(place: Place) -> Path:
    """Return the file in which it looks for MCP servers."""
    if place.scope == "project":
        return place.cwd / ".mcp.json"
    return Path(place.env.get("CLAUDE_CONFIG_DIR") or place.home) / ".claude.json"


def parts(place: Place) -> tuple[InstalledPart, ...]:
    """List what is put into its files: hooks, MCP server, skill."""
    hooks_path, servers_path = settings_file(place), servers_file(place)
    skill_path = hooks_path.parent / "skills" / "backstory" / "SKILL.md"
    guarded = start = f"[ ! -x {place.hook} ] || {place.hook}"
    if place.scope == "user":  # a project's settings may be shared with people who do not have the program
        start = f"[ -x {place.hook} ] || {{ {say(MISSING)}; exit 0; }}; {place.hook}"
    record, mode = place.record(NAME, hooks_path, ".json"), place.mode
    return (
        json_hooks.part(hooks_path, hooks(guarded, start), ours, record, allowed(), mode),
        json_servers.part(servers_path, json_servers.server(place.mcp), place.record(NAME, servers_path), mode),
        skill.part(skill_path, place.record(NAME, skill_path), mode),
    )


def _files(place: Place) -> dict[str, Path]:
    """Return the settings files that a session in this directory reads, the weakest first."""
    user, project = (settings_file(replace(place, scope=scope)) for scope in ("user", "project"))
    files = {"user": user, "project": project, "local": project.with_name("settings.local.json")}
    return {name: path for name, path in files.items() if name == "user" or path != user}


def callers(place: Place) -> list[str]:
    """List who calls our hooks in a session in this directory: user, project, local, plugin."""
    values = {name: read_settings(path) for name, path in _files(place).items()}
    names = [name for name, value in values.items() if any(map(ours, _commands(value)))]
    enabled: dict[str, Any] = {}
    for value in values.values():
        given = value.get("enabledPlugins")
        enabled |= given if isinstance(given, dict) else {}
    return [*names, "plugin"] if _enables_plugin({"enabledPlugins": enabled}) else names


def _commands(value: dict[str, Any]) -> list[str]:
    hooks = value.get("hooks")
    groups = [g for of in hooks.values() if isinstance(of, list) for g in of] if isinstance(hooks, dict) else []
    entries = [e for g in groups if isinstance(g, dict) and isinstance(g.get("hooks"), list) for e in g["hooks"]]
    return [str(entry.get("command")) for entry in entries if isinstance(entry, dict)]


def retention(place: Place) -> Retention | None:
    """Return how long transcripts are kept, by the setting for it; None if that setting makes no sense."""
    files = _files(place)
    values = [read_settings(path).get("cleanupPeriodDays") for path in files.values()]
    days = next((value for value in reversed(values) if value is not None), CLEANUP_DAYS)
    if not isinstance(days, int | float):
        return None
    return Retention(days, f'To keep them longer, set "cleanupPeriodDays" in {files["user"]}.')


def read_settings(path: Path) -> dict[str, Any]:
    """Read a settings file; empty if it cannot be read."""
    try:
        value = json.loads(read_regular(path, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def hooks(shim: str, start: str) -> dict[str, Hook]:
    """Return one entry for each event. They name only the shim, so an upgrade does not rewrite them. `start` is the
    beginning of the command for SessionStart, `shim` that of the others."""
    return {
        event: Hook(f"{start if event == START else shim} {NAME} {event}", timeout=5, matcher=MATCHERS.get(event))
        for event in EVENTS
    }


def allowed(server: str = json_servers.NAME) -> tuple[str, ...]:
    """Return the permission rules for the tools that only read memory."""
    return tuple(f"mcp__{server}__{tool}" for tool in json_servers.READING_TOOLS)


def say(text: str) -> str:
    """Return a shell command that reads the payload of SessionStart and tells the user something, once in a session."""
    return f"""grep -q '"source": *"[rs]' && echo '{json.dumps({"systemMessage": f"backstory: {text}"})}'"""


def muted(place: Place) -> str:
    """Return a sentence if hooks are switched off altogether."""
    off = read_settings(settings_file(place)).get("disableAllHooks") is True
    return "But `disableAllHooks` is on in that file: no hook runs, and nothing is recorded." if off else ""


def plugin_hooks() -> dict[str, Any]:
    """Return the plugin's hooks.json: the same entries, for a program that may be missing, a version check, and the
    permission to read memory, because a plugin has no rules."""
    folder = "${BACKSTORY_DATA_DIR:-$HOME/.backstory}/bin"
    shim, setup = f'"{folder}/backstory-hook"', 'sh "${CLAUDE_PLUGIN_ROOT}/hooks/setup.sh"'
    # If the settings have our hooks too, the plugin's do nothing: each event would cost twice.
    settings = '"${CLAUDE_CONFIG_DIR:-$HOME/.claude}/settings.json"'
    doubled = f"grep -qs /bin/backstory-hook {settings}"
    # `uninstall` leaves a hook that does nothing, but no worker.
    start = f'! {doubled} || exit 0; [ -x "{folder}/backstory-worker" ] || exec {setup} {START}; {shim}'
    entries = hooks(f"[ ! -x {shim} ] || {doubled} || {shim}", start)
    entries["Setup"] = Hook(setup, timeout=10)
    allow = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
    readers = f"mcp__plugin_backstory_backstory__({'|'.join(json_servers.READING_TOOLS)})"
    entries["PreToolUse"] = Hook(f"echo '{json.dumps(allow)}'", timeout=5, matcher=readers)
    described = "Tells backstory what happens, and a new session what it knows."
    return {"description": described, "hooks": {event: [hook.group] for event, hook in entries.items()}}


def plugin_servers() -> dict[str, Any]:
    """Return the plugin's .mcp.json: the bridge of whatever installation there is."""
    return {"mcpServers": {"backstory": json_servers.server()}}


def plugin_enabled(place: Place) -> bool:
    """Whether our plugin is switched on for the user, wherever a session is started."""
    return _enables_plugin(read_settings(settings_file(replace(place, scope="user"))))


def _enables_plugin(settings: Mapping[str, Any]) -> bool:
    """Whether settings switch our plugin on, from whatever marketplace."""
    enabled = settings.get("enabledPlugins")
    return isinstance(enabled, dict) and any(
        name.partition("@")[0] == "backstory" and bool(on) for name, on in enabled.items()
    )


def ours(command: str) -> bool:
    """Whether a command calls our shim, in whatever data directory."""
    return bool(re.search(rf"/bin/backstory-hook['\"]? {NAME} \w+$", command))
