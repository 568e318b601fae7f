"""The worker: the process that runs in the background."""
