"""The web viewer: the files of its page, and the sessions of browsers."""
