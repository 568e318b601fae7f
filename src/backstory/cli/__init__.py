"""The command: one file a noun."""
