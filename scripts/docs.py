"""Writes what the program can print itself: commands.md, settings.md, the plugin's hooks, server and skill."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def commands() -> str:
    """Every command's own help."""
    os.environ["COLUMNS"] = "100"
    from backstory.cli.main import parser

    top = parser()
    parts = ["# Commands\n", "Printed by the program itself (`make docs`).\n", _block(top)]
    for name, command in _children(top).items():
        parts += [f"\n## backstory {name}\n", _block(command)]
        for action, inner in _children(command).items():
            parts += [f"\n### backstory {name} {action}\n", _block(inner)]
    return "\n".join(parts) + "\n"


def _children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _block(parser: argparse.ArgumentParser) -> str:
    return "```\n" + parser.format_help().rstrip() + "\n```"


def settings() -> str:
    """Every setting, its default and its sentence."""
    from backstory.settings import NAMES, Settings, sentence

    default = Settings()
    rows = []
    for name in NAMES:
        value = getattr(default, name)
        shown = ", ".join(value) if isinstance(value, tuple) else value
        rows.append(f"| `{name}` | {shown} | {sentence(name)} |")
    return (
        "# Settings\n\nEnvironment variables (such as `BACKSTORY_PORT`) override `config.toml` in the data directory. "
        "It overrides the defaults. `backstory config set NAME VALUE` writes `config.toml`.\n"
        "`BACKSTORY_DATA_DIR` sets the data directory (`~/.backstory`).\n\n"
        "| setting | default | description |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def hooks() -> str:
    """The plugin's hooks, from the table that the installer uses."""
    import json

    from backstory.agents.claude_code import settings

    return json.dumps(settings.plugin_hooks(), indent=2) + "\n"


def servers() -> str:
    """The plugin's MCP server."""
    import json

    from backstory.agents.claude_code import settings

    return json.dumps(settings.plugin_servers(), indent=2) + "\n"


def skill() -> str:
    """The plugin's skill, which the installer writes too."""
    from backstory.agents import skill

    return skill.text().decode()


PAGES = {
    "commands.md": commands,
    "settings.md": settings,
    "../plugin/hooks/hooks.json": hooks,
    "../plugin/.mcp.json": servers,
    "../plugin/skills/backstory/SKILL.md": skill,
}

if __name__ == "__main__":
    for name, write in PAGES.items():
        (DOCS / name).write_text(write(), "utf-8")
