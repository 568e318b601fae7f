"""A recorded session of a small shop, which `make demo` replays through the hook."""
