"""Memory into words: what a new session is told."""
