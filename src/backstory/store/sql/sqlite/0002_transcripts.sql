-- How far each transcript was read, so that a long one is not read again and again.
CREATE TABLE transcripts (
  -- 'reconcile': read by the worker, from its install on. 'import': given by the user, and read whole.
  reader TEXT NOT NULL,
  path TEXT NOT NULL,
  inode INTEGER NOT NULL,
  size INTEGER NOT NULL,
  changed_ns INTEGER NOT NULL,
  -- Where to read on, and the prompt that is being answered there.
  mark_offset INTEGER NOT NULL DEFAULT 0,
  mark_prompt TEXT NOT NULL DEFAULT '',
  read_at TEXT NOT NULL,
  PRIMARY KEY (reader, path)
) WITHOUT ROWID;

-- A fork's transcript repeats the conversation that it came from: what is known there is not taken in again.
CREATE INDEX events_by_event_id ON events (event_id);
CREATE INDEX events_by_tool_use_anywhere ON events (tool_use_id) WHERE tool_use_id IS NOT NULL;

-- What was imported has newer ids than what it happened before: recent means recent by the clock.
CREATE INDEX observations_by_time ON observations (project_key, created_at, id);
CREATE INDEX session_summaries_by_time ON session_summaries (project_key, created_at, id);
