-- The first schema. A migration is never edited once released; there is no release yet. The next one has the next number.
-- Times are UTC text (2026-02-21T03:39:07.123Z). Times that are compared with a clock are milliseconds since 1970.

-- Conversations.

CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT NOT NULL DEFAULT 'claude-code',
  content_session_id TEXT NOT NULL CHECK (content_session_id <> ''),
  claude_session_id TEXT GENERATED ALWAYS AS (content_session_id) VIRTUAL,
  -- The observer's id. NULL until a provider's first answer. No table refers to it: every child has session_id.
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
  -- The current round is not observed before this moment, so that it is observed as a whole.
  settles_at INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  last_event_at TEXT NOT NULL,
  completed_at TEXT,
  -- Later events of a forgotten session leave tombstones only.
  forgotten_at TEXT,
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
-- Imported rows have new ids and old times, so memory is read by time.
CREATE INDEX user_prompts_by_time ON user_prompts (created_at, id);

-- What was said, message by message.
CREATE TABLE turns (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  -- From 0, in order of arrival. A number never changes; a turn that arrives late gets the next one.
  number INTEGER NOT NULL,
  prompt_number INTEGER NOT NULL DEFAULT 0,
  role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
  -- The name of the speaker, in conversations that have names.
  speaker TEXT,
  -- NULL if it is private or was forgotten.
  text TEXT,
  at TEXT NOT NULL,
  -- The agent's own id of the message.
  mark TEXT,
  UNIQUE (session_id, number)
);
CREATE UNIQUE INDEX turns_by_mark ON turns (mark, session_id) WHERE mark IS NOT NULL;
CREATE INDEX turns_by_round ON turns (session_id, prompt_number, number);

-- How far each transcript was read, so that reading continues there.
CREATE TABLE transcripts (
  -- 'reconcile': read by the worker, from the installation on. 'import': given by the user and read whole.
  reader TEXT NOT NULL,
  path TEXT NOT NULL,
  inode INTEGER NOT NULL,
  size INTEGER NOT NULL,
  changed_ns INTEGER NOT NULL,
  -- Where to continue, and the prompt that is being answered there.
  mark_offset INTEGER NOT NULL DEFAULT 0,
  mark_prompt TEXT NOT NULL DEFAULT '',
  read_at TEXT NOT NULL,
  PRIMARY KEY (reader, path)
) WITHOUT ROWID;

-- Groups: the active session of each, and its earlier ones.
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

-- Events and what is made of them.

-- What agents reported. The table is the queue as well: a queued row is work to do. A tombstone has no payload; it keeps
-- the event from being stored again.
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
  -- The provider that could not be asked. The rules observed in its place; `backstory reobserve` asks it later.
  instead_of TEXT,
  -- The agent's own id of the event's prompt, even if that prompt is unknown.
  prompt_id TEXT,
  UNIQUE (session_id, event_id)
);
CREATE UNIQUE INDEX events_by_tool_use ON events (session_id, tool_use_id) WHERE tool_use_id IS NOT NULL;
CREATE INDEX events_open ON events (session_id, id, status, available_at, lease_until)
  WHERE status IN ('queued', 'leased');
CREATE INDEX events_leased ON events (session_id, lease_until) WHERE status = 'leased';
CREATE INDEX events_dead ON events (id) WHERE status = 'dead';
CREATE INDEX events_by_round ON events (session_id, prompt_number, id);
-- The transcript of a fork repeats the original conversation. Events that are stored there are not stored again.
CREATE INDEX events_by_event_id ON events (event_id);
CREATE INDEX events_by_tool_use_anywhere ON events (tool_use_id) WHERE tool_use_id IS NOT NULL;
CREATE INDEX events_stood_in ON events (session_id, prompt_number) WHERE instead_of IS NOT NULL;
-- Finds the tool uses between two turns. Without it, SQLite reads past a large payload to find the time.
CREATE INDEX events_by_time ON events (session_id, occurred_at, id) WHERE kind IN ('tool', 'tool_failure');
CREATE INDEX events_by_prompt_id ON events (session_id, prompt_id) WHERE prompt_id IS NOT NULL;

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
  created_at TEXT NOT NULL,
  -- A pinned observation is in every context of its project.
  pinned_at TEXT,
  -- A superseded observation is in no context and points to the newer one.
  superseded_by INTEGER REFERENCES observations (id) ON DELETE SET NULL,
  superseded_at TEXT,
  instead_of TEXT,
  -- An observation that was edited by hand is never replaced.
  edited_at TEXT
);
CREATE INDEX observations_by_project ON observations (project_key, id);
CREATE INDEX observations_by_session ON observations (session_id, id);
CREATE INDEX observations_by_memory ON observations (memory_session_id);
CREATE INDEX observations_by_time ON observations (project_key, created_at, id);
CREATE INDEX observations_pinned ON observations (project_key, pinned_at) WHERE pinned_at IS NOT NULL;
CREATE INDEX observations_superseded ON observations (superseded_by) WHERE superseded_by IS NOT NULL;

-- Which events an observation came from.
CREATE TABLE observation_events (
  observation_id INTEGER NOT NULL REFERENCES observations (id) ON DELETE CASCADE,
  event_id INTEGER NOT NULL REFERENCES events (id) ON DELETE CASCADE,
  PRIMARY KEY (observation_id, event_id)
) WITHOUT ROWID;
CREATE INDEX observation_events_by_event ON observation_events (event_id);

-- A digest of each file of an observation. If the file's digest differs later, the file has changed since.
CREATE TABLE observation_files (
  observation_id INTEGER NOT NULL REFERENCES observations (id) ON DELETE CASCADE,
  path TEXT NOT NULL,
  mark TEXT NOT NULL,
  PRIMARY KEY (observation_id, path)
) WITHOUT ROWID;

-- What an observation states about a subject. A later one with another value supersedes it.
CREATE TABLE statements (
  observation_id INTEGER NOT NULL REFERENCES observations (id) ON DELETE CASCADE,
  subject TEXT NOT NULL,
  value TEXT NOT NULL,
  project_key TEXT NOT NULL,
  PRIMARY KEY (observation_id, subject)
) WITHOUT ROWID;
CREATE INDEX statements_by_subject ON statements (project_key, subject);

CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  prompt_number INTEGER NOT NULL,
  memory_session_id TEXT,
  project TEXT NOT NULL,
  project_key TEXT NOT NULL,
  -- 'stop': ours, of a round. 'compact': the agent's own, of a compaction.
  source TEXT NOT NULL DEFAULT 'stop',
  request TEXT NOT NULL DEFAULT '',
  investigated TEXT NOT NULL DEFAULT '',
  learned TEXT NOT NULL DEFAULT '',
  completed TEXT NOT NULL DEFAULT '',
  next_steps TEXT NOT NULL DEFAULT '',
  notes TEXT NOT NULL DEFAULT '',
  provider TEXT NOT NULL,
  created_at TEXT NOT NULL,
  instead_of TEXT,
  UNIQUE (session_id, prompt_number, source)
);
CREATE INDEX session_summaries_by_project ON session_summaries (project_key, id);
CREATE INDEX session_summaries_by_time ON session_summaries (project_key, created_at, id);

-- What models cost, by day in local time. Every call counts, even if its answer was useless.
CREATE TABLE model_calls (
  day TEXT NOT NULL,
  project_key TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  project TEXT NOT NULL,
  calls INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cached_tokens INTEGER NOT NULL,
  -- Millionths of a dollar. NULL if the price is unknown.
  cost_micros INTEGER,
  PRIMARY KEY (day, project_key, provider, model)
);

-- Forgetting and importing.

-- What was forgotten and must not come back: a digest to recognise it by, and nothing of what it said.
CREATE TABLE forgotten (
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  mark TEXT NOT NULL,
  forgotten_at TEXT NOT NULL,
  PRIMARY KEY (session_id, kind, mark)
) WITHOUT ROWID;
-- Recognises a forgotten observation in any session.
CREATE INDEX forgotten_by_mark ON forgotten (kind, mark);

-- Forgotten texts by a keyed digest, so that a copy of the conversation under another session id does not bring them back.
CREATE TABLE forgotten_texts (
  mark TEXT NOT NULL,
  -- When it was said. Empty: keep it out, whenever it was said.
  moment TEXT NOT NULL,
  forgotten_at TEXT NOT NULL,
  PRIMARY KEY (mark, moment)
) WITHOUT ROWID;

-- Forgotten rows that are not yet wiped from the files. A worker that was killed continues with them.
CREATE TABLE erasures (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  asked_at TEXT NOT NULL
);

-- Which row of ours a row of a file became, while the file is being imported.
CREATE TABLE import_keys (
  import_id TEXT NOT NULL,
  name TEXT NOT NULL,
  old_id INTEGER NOT NULL,
  new_id INTEGER NOT NULL,
  PRIMARY KEY (import_id, name, old_id)
) WITHOUT ROWID;

-- The index. All of it can be rebuilt from the tables above.

-- Turns, and the input of the tools between them, in pieces of similar length.
CREATE TABLE chunks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  first_turn INTEGER NOT NULL,
  last_turn INTEGER NOT NULL,
  text TEXT NOT NULL,
  at TEXT NOT NULL
);
CREATE INDEX chunks_by_session ON chunks (session_id, first_turn, last_turn);

-- backstory tokenises and stems text itself, the same way for both engines. FTS5 gets tokens separated by spaces. `marks`
-- are tokens to filter by: kind, project, session, files.
CREATE VIRTUAL TABLE words USING fts5 (title, body, marks, tokenize = 'ascii tokenchars ''_=''');
-- Where the words of an item are, and what every hit is asked for.
CREATE TABLE word_rows (
  words_rowid INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  item_id INTEGER NOT NULL,
  session_id INTEGER NOT NULL,
  at TEXT NOT NULL,
  project TEXT NOT NULL,
  project_key TEXT NOT NULL,
  UNIQUE (kind, item_id)
);

-- What is being rebuilt, newest rows first, and how far it is. A worker that was killed continues with it. A migration
-- that changes how text is indexed inserts a row for each step, with before_id 4611686018427387904.
CREATE TABLE rebuilds (
  step TEXT PRIMARY KEY,
  before_id INTEGER NOT NULL,
  done INTEGER NOT NULL DEFAULT 0,
  total INTEGER NOT NULL DEFAULT 0
);

-- Whose vectors there are. One embedder serves searches. Another may be making its vectors meanwhile.
CREATE TABLE embedders (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  -- 'filling': its items are being listed in vectors_due. 'past': its vectors are being removed.
  state TEXT NOT NULL CHECK (state IN ('filling', 'making', 'serving', 'past')),
  created_at TEXT NOT NULL
);

-- A vector for each item that has words, made in the background.
CREATE TABLE vectors (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  embedder_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  item_id INTEGER NOT NULL,
  session_id INTEGER NOT NULL,
  at TEXT NOT NULL,
  -- A signed byte for each dimension, to be multiplied by the scale.
  vector BLOB NOT NULL,
  scale REAL NOT NULL,
  UNIQUE (kind, item_id, embedder_id)
);

-- Items that have no vector yet, or one of an earlier text.
CREATE TABLE vectors_due (
  kind TEXT NOT NULL,
  item_id INTEGER NOT NULL,
  -- Changes with the text. A vector made for another stamp is known to be of an older text.
  stamp TEXT NOT NULL,
  PRIMARY KEY (kind, item_id)
) WITHOUT ROWID;

-- Deleted vectors, for processes that hold vectors in memory.
CREATE TABLE vectors_gone (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  vector_id INTEGER NOT NULL
);
