-- Titles of a session: 'user' was given here, 'custom' in the agent, and 'agent' was made by the agent. The first of
-- these is also sdk_sessions.title.
CREATE TABLE session_titles (
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  source TEXT NOT NULL CHECK (source IN ('user', 'custom', 'agent')),
  title TEXT NOT NULL,
  PRIMARY KEY (session_id, source)
) WITHOUT ROWID;
INSERT INTO session_titles (session_id, source, title) SELECT id, 'custom', title FROM sdk_sessions WHERE title <> '';

CREATE TABLE session_tags (
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  PRIMARY KEY (session_id, tag)
) WITHOUT ROWID;
CREATE INDEX session_tags_by_tag ON session_tags (tag);
