-- Forgetting that lasts, imports that find their rows, and looking back by time.

-- A session that was forgotten stays so: whatever comes of it later leaves a tombstone and no more.
ALTER TABLE sdk_sessions ADD COLUMN forgotten_at TEXT;

-- What was forgotten and must not come back: a mark to know it by, nothing of what it said.
CREATE TABLE forgotten (
  session_id INTEGER NOT NULL REFERENCES sdk_sessions (id) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  mark TEXT NOT NULL,
  forgotten_at TEXT NOT NULL,
  PRIMARY KEY (session_id, kind, mark)
) WITHOUT ROWID;

-- Forgotten, and not yet wiped from the files: a worker that was killed in between goes on with it.
CREATE TABLE erasures (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  asked_at TEXT NOT NULL
);

-- Which row of ours a row of a file became, for as long as the file is being imported.
CREATE TABLE import_keys (
  import_id TEXT NOT NULL,
  name TEXT NOT NULL,
  old_id INTEGER NOT NULL,
  new_id INTEGER NOT NULL,
  PRIMARY KEY (import_id, name, old_id)
) WITHOUT ROWID;

-- What was imported has young ids and old times: memory is read by time.
CREATE INDEX user_prompts_by_time ON user_prompts (created_at, id);

-- Where an item's words are was not known until now: found again, and what was indexed twice taken out. And what they
-- belong to stands beside it, so that a search need not read the text of every match.
ALTER TABLE word_rows ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE word_rows ADD COLUMN project_key TEXT NOT NULL DEFAULT '';
DELETE FROM word_rows;
INSERT INTO word_rows (kind, item_id, words_rowid, project, project_key)
SELECT kind, item_id, MAX(rowid), project, project_key FROM words GROUP BY kind, item_id;
DELETE FROM words WHERE rowid NOT IN (SELECT words_rowid FROM word_rows);
CREATE UNIQUE INDEX word_rows_by_row ON word_rows (words_rowid, project, project_key);
