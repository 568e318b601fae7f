-- Groups: isolated owners of sessions. `sessions` has the active one of each, `session_history` the others.
CREATE TABLE groups (
  name TEXT PRIMARY KEY,
  -- The name without case. Names that differ only by case are the same group.
  folded TEXT NOT NULL UNIQUE,
  -- A clear, a resume and a deletion start a new one. What was begun under an earlier one cannot move the pointer.
  generation INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  -- The row of a deleted group stays, so that its generations go on if it is created again.
  deleted_at TEXT
) WITHOUT ROWID;

-- A session is in the history of its group once.
CREATE UNIQUE INDEX session_history_by_session ON session_history (group_folder, session_id);

-- Conversations that were written as markdown.
CREATE TABLE archives (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL,
  session_id TEXT NOT NULL,
  title TEXT NOT NULL,
  cause TEXT NOT NULL,
  -- The first message comes after this one, which ends the archive before it. NULL: the conversation begins here.
  after_mark TEXT,
  last_mark TEXT NOT NULL,
  archived_at TEXT NOT NULL,
  -- The name of the file. NULL until it is written.
  file TEXT
);
CREATE INDEX archives_by_session ON archives (group_folder, session_id, id);
CREATE UNIQUE INDEX archives_by_file ON archives (group_folder, file);
