"""The web viewer: its page, and how a browser is let in."""
