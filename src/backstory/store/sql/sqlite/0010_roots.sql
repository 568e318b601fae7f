-- The top directory of the working tree that a session was started in. Files are named from there. Observations of a
-- session from before keep the names they have, from the session's own directory: `changed_files` looks in both.
ALTER TABLE sdk_sessions ADD COLUMN root TEXT NOT NULL DEFAULT '';
