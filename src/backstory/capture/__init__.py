"""Capture: stores the reports of agents, at once or late. Nothing here knows HTTP."""
