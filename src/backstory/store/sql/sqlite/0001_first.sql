-- The first schema. Times are UTC text (2026-02-21T03:39:07.123Z), and milliseconds where a clock is compared.

CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT NOT NULL DEFAULT 'claude-code',
  content_session_id TEXT NOT NULL CHECK (content_session_id <> ''),
  claude_session_id TEXT GENERATED ALWAYS AS (content_session_id) VIRTUAL,
  -- The observer's id. Unique; NULL until a provider's first answer. Nothing hangs on it: every child has session_id.
  memory_session_id TEXT UNIQUE CHECK (memory_session_id <> ''),
  memory_provider TEXT,
  project TEXT NOT NULL DEFAULT '',
  project_key TEXT NOT NULL DEFAULT '',
  cwd TEXT NOT NULL DEFAULT '',
  git_branch TEXT,
  transcript_path TEXT,
  title TEXT,
  first_user_prompt TEXT,
  prompt_counter INTEGER NOT NULL DEFAULT 0,
  status TEXT NOT NULL DEFAULT 'created'
    CHECK (status IN ('created', 'active', 'paused', 'completed', 'expired', 'failed')),
  parent_id INTEGER REFERENCES sdk_sessions (id) ON DELETE SET NULL,
  start_source TEXT,
  end_reason TEXT,
  force_init INTEGER NOT NULL DEFAULT 0,
  -- The round under way is left alone until this moment, so that it is observed together.
  settles_at INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  last_event_at TEXT NOT NULL,
  completed_at TEXT,
  UNIQUE (agent, content_session_id)
);
CREATE INDEX sdk_sessions_by_project ON sdk_sessions (project_key, last_event_at);

-- Every change of a session's state.
CREATE TABLE session_moves (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  from_status TEXT,
  to_status TEXT NOT NULL,
  cause TEXT NOT NULL,
  at TEXT NOT NULL
);
CREATE INDEX session_moves_by_session ON session_moves (session_id, id);

CREATE TABLE user_prompts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  prompt_number INTEGER NOT NULL,
  prompt TEXT,
  is_private INTEGER NOT NULL DEFAULT 0,
  prompt_id TEXT,
  created_at TEXT NOT NULL,
  UNIQUE (session_id, prompt_number)
);

-- What agents reported, and the queue: an open row is work to do. A tombstone has no payload; it keeps a thing away.
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id TEXT NOT NULL,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  prompt_number INTEGER NOT NULL DEFAULT 0,
  kind TEXT NOT NULL,
  tool_name TEXT,
  tool_use_id TEXT,
  payload TEXT,
  occurred_at TEXT NOT NULL,
  created_at TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('queued', 'leased', 'done', 'dead', 'dropped', 'tombstone')),
  reason TEXT,
  attempts INTEGER NOT NULL DEFAULT 0,
  available_at INTEGER NOT NULL DEFAULT 0,
  lease_until INTEGER,
  lease_owner TEXT,
  last_error TEXT,
  observed_at TEXT,
  UNIQUE (session_id, event_id)
);
CREATE UNIQUE INDEX events_by_tool_use ON events (session_id, tool_use_id) WHERE tool_use_id IS NOT NULL;
CREATE INDEX events_open ON events (session_id, id, status, available_at, lease_until)
  WHERE status IN ('queued', 'leased');
CREATE INDEX events_leased ON events (session_id, lease_until) WHERE status = 'leased';
CREATE INDEX events_dead ON events (id) WHERE status = 'dead';
CREATE INDEX events_by_round ON events (session_id, prompt_number, id);

CREATE TABLE observations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  prompt_number INTEGER NOT NULL,
  memory_session_id TEXT NOT NULL,
  project TEXT NOT NULL,
  project_key TEXT NOT NULL,
  type TEXT NOT NULL,
  title TEXT NOT NULL,
  subtitle TEXT NOT NULL DEFAULT '',
  narrative TEXT NOT NULL DEFAULT '',
  facts TEXT NOT NULL DEFAULT '[]',
  concepts TEXT NOT NULL DEFAULT '[]',
  files_read TEXT NOT NULL DEFAULT '[]',
  files_modified TEXT NOT NULL DEFAULT '[]',
  tool_name TEXT,
  tool_input_json TEXT,
  tool_response_text TEXT,
  compressed_observation TEXT NOT NULL,
  provider TEXT NOT NULL,
  created_at TEXT NOT NULL
);
CREATE INDEX observations_by_project ON observations (project_key, id);
CREATE INDEX observations_by_session ON observations (session_id, id);
CREATE INDEX observations_by_memory ON observations (memory_session_id);

-- Which events an observation came from.
CREATE TABLE observation_events (
  observation_id INTEGER NOT NULL REFERENCES observations (id) ON DELETE CASCADE,
  event_id INTEGER NOT NULL REFERENCES events (id) ON DELETE CASCADE,
  PRIMARY KEY (observation_id, event_id)
) WITHOUT ROWID;
CREATE INDEX observation_events_by_event ON observation_events (event_id);

CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  prompt_number INTEGER NOT NULL,
  memory_session_id TEXT,
  project TEXT NOT NULL,
  project_key TEXT NOT NULL,
  -- 'stop': ours, of a round. 'compact': the agent's own, when it compacted.
  source TEXT NOT NULL DEFAULT 'stop',
  request TEXT NOT NULL DEFAULT '',
  investigated TEXT NOT NULL DEFAULT '',
  learned TEXT NOT NULL DEFAULT '',
  completed TEXT NOT NULL DEFAULT '',
  next_steps TEXT NOT NULL DEFAULT '',
  notes TEXT NOT NULL DEFAULT '',
  provider TEXT NOT NULL,
  created_at TEXT NOT NULL,
  UNIQUE (session_id, prompt_number, source)
);
CREATE INDEX session_summaries_by_project ON session_summaries (project_key, id);

-- The words of observations, summaries and prompts, to search by.
CREATE VIRTUAL TABLE words USING fts5 (
  title, body, kind UNINDEXED, item_id UNINDEXED, project_key UNINDEXED, project UNINDEXED,
  tokenize = 'porter unicode61 remove_diacritics 2'
);
-- Where an item's words are, so that they can be taken out again.
CREATE TABLE word_rows (
  kind TEXT NOT NULL,
  item_id INTEGER NOT NULL,
  words_rowid INTEGER NOT NULL,
  PRIMARY KEY (kind, item_id)
) WITHOUT ROWID;

-- Groups: the session that each has active, and the ones it had.
CREATE TABLE sessions (
  group_folder TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  generation INTEGER NOT NULL DEFAULT 1,
  updated_at TEXT
);
CREATE TABLE session_history (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL,
  session_id TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at TEXT NOT NULL,
  archived_at TEXT NOT NULL
);
