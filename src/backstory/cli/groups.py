"""groups: conversations that are kept apart, each with an agent of its own."""

from __future__ import annotations

from typing import Any

from backstory.cli import group_run


def add(commands: Any) -> None:
    text = "talk to agents in groups, each with its own conversations and memory"
    top = commands.add_parser("groups", help=text, description=f"{text[0].upper()}{text[1:]}.")
    actions = top.add_subparsers(metavar="ACTION", required=True)
    group_run.add(actions)
