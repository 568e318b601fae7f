-- What is hidden is in no context and no search result, and destroyed by nothing: `hide` can be undone.
ALTER TABLE observations ADD COLUMN hidden_at TEXT;
ALTER TABLE sdk_sessions ADD COLUMN hidden_at TEXT;
CREATE INDEX observations_hidden ON observations (project_key, id) WHERE hidden_at IS NOT NULL;
