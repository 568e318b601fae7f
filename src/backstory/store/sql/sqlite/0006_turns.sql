-- The conversation itself: what was said, message by message, and pieces of it to search by.

CREATE TABLE turns (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  -- From 0, in the order in which they came. A number once given stays: what comes later gets the next.
  number INTEGER NOT NULL,
  prompt_number INTEGER NOT NULL DEFAULT 0,
  role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
  -- Where a conversation has names.
  speaker TEXT,
  -- NULL where it is private or was forgotten.
  text TEXT,
  at TEXT NOT NULL,
  -- The agent's own id of the message.
  mark TEXT,
  UNIQUE (session_id, number)
);
CREATE UNIQUE INDEX turns_by_mark ON turns (mark, session_id) WHERE mark IS NOT NULL;
CREATE INDEX turns_by_round ON turns (session_id, prompt_number, number);

-- Turns, and what the tools between them were asked, in pieces of about the same length. Made from the others.
CREATE TABLE chunks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  first_turn INTEGER NOT NULL,
  last_turn INTEGER NOT NULL,
  text TEXT NOT NULL,
  at TEXT NOT NULL
);
CREATE INDEX chunks_by_session ON chunks (session_id, first_turn, last_turn);

-- What was done between two turns is asked for by time. (Behind a large payload a time is slow to read.)
CREATE INDEX events_by_time ON events (session_id, occurred_at, id) WHERE kind IN ('tool', 'tool_failure');
