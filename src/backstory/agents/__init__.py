"""The agents that backstory listens to: each is a package with a row, AGENT. See docs/porting.md to add one."""

from __future__ import annotations

from backstory.agents import claude_code
from backstory.agents.agent import Agent

__all__ = ["AGENTS", "DEFAULT_AGENT", "Agent"]

AGENTS: dict[str, Agent] = {agent.name: agent for agent in (claude_code.AGENT,)}
#: The agent that is meant where none is named.
DEFAULT_AGENT = claude_code.AGENT.name
