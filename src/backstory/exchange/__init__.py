"""In and out: everything that a user owns, as lines that another store can read."""
