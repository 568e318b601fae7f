"""Jobs: what the worker does in the background."""
