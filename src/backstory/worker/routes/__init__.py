"""Routes: one file for each noun, each a table of endpoints."""
