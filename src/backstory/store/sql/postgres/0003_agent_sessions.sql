-- Sessions that are driven through the Python API. A row here makes a session one of them.
CREATE TABLE agent_sessions (
  session_id BIGINT PRIMARY KEY REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  model TEXT NOT NULL DEFAULT '',
  message_count BIGINT NOT NULL DEFAULT 0,
  turn_count BIGINT NOT NULL DEFAULT 0,
  input_tokens BIGINT NOT NULL DEFAULT 0,
  output_tokens BIGINT NOT NULL DEFAULT 0,
  -- Millionths of a dollar.
  cost_micros BIGINT NOT NULL DEFAULT 0,
  last_stop_reason TEXT
);
-- Finds the sessions that may be idle.
CREATE INDEX sdk_sessions_active ON sdk_sessions (id) WHERE status = 'active';
