"""Capture: how a report of an agent gets into the store, now or late. Nothing here knows HTTP."""
