"""The web viewer: its page, and the sessions of browsers."""
