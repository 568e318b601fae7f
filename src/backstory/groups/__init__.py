"""Groups: isolated owners of sessions. Each has its own pointer, history, archives, instructions and memory."""
