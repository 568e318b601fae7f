-- Finds the newest entries of all projects. The columns after the id are there to filter by without reading the rows.
CREATE INDEX observations_by_moment ON observations (created_at, id, type, session_id, hidden_at);
CREATE INDEX session_summaries_by_moment ON session_summaries (created_at, id, session_id);
