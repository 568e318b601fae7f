-- Transcripts that are kept, so that a conversation can be resumed after the agent has deleted its file.
CREATE TABLE kept_transcripts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  project_key TEXT NOT NULL,
  -- Empty: the session's own. Else that of a subagent, such as subagents/agent-1.
  subpath TEXT NOT NULL DEFAULT '',
  -- Who adds to it: 'file', the worker from the agent's file; 'sdk', a program through the agent's SDK.
  source TEXT NOT NULL CHECK (source IN ('file', 'sdk')),
  -- Whether its last round is private.
  is_private INTEGER NOT NULL DEFAULT 0,
  changed_at TEXT NOT NULL,
  UNIQUE (session_id, project_key, subpath)
);
CREATE INDEX kept_transcripts_by_project ON kept_transcripts (project_key, subpath);

-- Their lines, in the order of the ids.
CREATE TABLE transcript_entries (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  transcript_id INTEGER NOT NULL REFERENCES kept_transcripts (id) ON DELETE CASCADE,
  -- The agent's id of the entry. For one without an id: a digest, and how many of the same came before it.
  mark TEXT NOT NULL,
  payload TEXT NOT NULL,
  -- A fork repeats the entries of its parent, so an entry is searched by its mark alone, too.
  UNIQUE (mark, transcript_id)
);
CREATE INDEX transcript_entries_in_order ON transcript_entries (transcript_id, id);
