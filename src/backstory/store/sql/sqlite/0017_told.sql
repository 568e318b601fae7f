-- What a session was told: when, how many tokens, and which observations. Its text is not kept, so that nothing that is
-- forgotten or hidden stays here.
CREATE TABLE contexts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  -- How the session started, or 'prompt'.
  cause TEXT NOT NULL,
  at TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  -- Observations that were in it, also those that are gone.
  observations INTEGER NOT NULL
);
CREATE INDEX contexts_by_session ON contexts (session_id, id);
CREATE INDEX contexts_by_time ON contexts (at);
CREATE TABLE context_observations (
  context_id INTEGER NOT NULL REFERENCES contexts (id) ON DELETE CASCADE,
  observation_id INTEGER NOT NULL REFERENCES observations (id) ON DELETE CASCADE,
  PRIMARY KEY (context_id, observation_id)
) WITHOUT ROWID;
CREATE INDEX context_observations_by_observation ON context_observations (observation_id);

-- Tokens that the models of an agent used, as its transcript tells: those of a part of it (from a prompt or a
-- compaction to the next) and a model. The row without a part has the cost of all that the agent counted itself.
CREATE TABLE session_usage (
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  part TEXT NOT NULL,
  model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL,
  -- Read from the cache, and written to it for five minutes and for an hour.
  cached_tokens INTEGER NOT NULL,
  cache_5m_tokens INTEGER NOT NULL,
  cache_1h_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  -- Millionths of a dollar. NULL: the transcript does not tell.
  cost_micros INTEGER,
  PRIMARY KEY (session_id, part, model)
) WITHOUT ROWID;
CREATE INDEX session_usage_by_part ON session_usage (part);
-- The transcripts since the installation are read again, for what was used in them.
DELETE FROM transcripts WHERE reader = 'reconcile';
