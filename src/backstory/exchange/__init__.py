"""Export and import: everything that a user owns, as lines of JSON that another store can read."""
