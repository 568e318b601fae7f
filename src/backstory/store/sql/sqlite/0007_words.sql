-- Words are cut up and stemmed by us, the same way for every engine: FTS5 sees tokens with spaces between them, and marks
-- by which an item is asked for (its kind, project, session, files). What was indexed before is indexed anew.
DROP TABLE words;
CREATE VIRTUAL TABLE words USING fts5 (title, body, marks, tokenize = 'ascii tokenchars ''_=''');
DROP TABLE word_rows;
-- Where an item's words are, and what is asked of every hit.
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

-- What is being made anew, newest first, and how far it is: a worker that was killed goes on with it.
CREATE TABLE rebuilds (
  step TEXT PRIMARY KEY,
  before_id INTEGER NOT NULL,
  done INTEGER NOT NULL DEFAULT 0,
  total INTEGER NOT NULL DEFAULT 0
);
INSERT INTO rebuilds (step, before_id) VALUES ('observations', 4611686018427387904), ('summaries', 4611686018427387904),
  ('prompts', 4611686018427387904);
