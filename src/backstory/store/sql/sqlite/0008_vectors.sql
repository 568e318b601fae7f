-- Meaning: a vector for each item that has words. Made from the others by an embedder, in the background.

-- Whose vectors there are. The one that serves is asked; another one's may be in the making beside it.
CREATE TABLE embedders (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  -- 'filling': what is to be embedded is being marked as due. 'past': its vectors are being removed.
  state TEXT NOT NULL CHECK (state IN ('filling', 'making', 'serving', 'past')),
  created_at TEXT NOT NULL
);

CREATE TABLE vectors (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  embedder_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  item_id INTEGER NOT NULL,
  session_id INTEGER NOT NULL,
  at TEXT NOT NULL,
  -- A signed byte for each dimension; times the scale it is the number.
  vector BLOB NOT NULL,
  scale REAL NOT NULL,
  UNIQUE (kind, item_id, embedder_id)
);

-- What has no vector yet, or one of what it said before.
CREATE TABLE vectors_due (
  kind TEXT NOT NULL,
  item_id INTEGER NOT NULL,
  -- Another one with each change: what was embedded meanwhile is known to be of an older text.
  stamp TEXT NOT NULL,
  PRIMARY KEY (kind, item_id)
) WITHOUT ROWID;

-- Vectors that are gone, for whoever holds them in memory.
CREATE TABLE vectors_gone (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  vector_id INTEGER NOT NULL
);

INSERT INTO vectors_due (kind, item_id, stamp)
SELECT 'observation', id, '' FROM observations
UNION ALL SELECT 'summary', id, '' FROM session_summaries
UNION ALL SELECT 'prompt', id, '' FROM user_prompts WHERE prompt IS NOT NULL;
