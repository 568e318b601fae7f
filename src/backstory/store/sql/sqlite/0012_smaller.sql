-- Rows take half the space. Old rows are converted afterwards, in small steps (`rebuilds`).

-- The columns of an observation say what its JSON says, so that is made from them when it is read. What an import or an
-- earlier version stored is kept in observed_json, unless it says the same.
ALTER TABLE observations RENAME COLUMN compressed_observation TO observed_json;
ALTER TABLE observations ADD COLUMN compressed_observation TEXT GENERATED ALWAYS AS (
  CASE WHEN observed_json <> '' THEN observed_json ELSE
    '{"type": ' || json_quote(type) || ', "title": ' || json_quote(title) || ', "subtitle": ' || json_quote(subtitle)
    || ', "narrative": ' || json_quote(narrative) || ', "facts": ' || facts || ', "concepts": ' || concepts
    || ', "files_read": ' || files_read || ', "files_modified": ' || files_modified || '}' END
) VIRTUAL;
-- No query needs these.
DROP INDEX observations_by_memory;
DROP INDEX observations_by_project;
DROP INDEX session_summaries_by_project;
-- One index finds a tool use in its session and in any.
DROP INDEX events_by_tool_use_anywhere;
DROP INDEX events_by_tool_use;
CREATE UNIQUE INDEX events_by_tool_use ON events (tool_use_id, session_id) WHERE tool_use_id IS NOT NULL;

-- FTS5 keeps the index alone. The indexed texts are ours, compressed: they are scored, and FTS5 must be told them to remove
-- them. The index itself is copied as it is.
CREATE TABLE word_texts (
  words_rowid INTEGER PRIMARY KEY,
  -- Tokens of title and body.
  length INTEGER NOT NULL,
  title TEXT NOT NULL,
  -- Body and marks, separated by a line break. Compressed if they are long.
  body_and_marks BLOB NOT NULL
);
INSERT INTO word_texts SELECT id, 2 + LENGTH(c0 || c1) - LENGTH(replace(c0 || c1, ' ', '')), c0, c1 || char(10) || c2 FROM words_content;
ALTER TABLE words RENAME TO words_before;
CREATE VIRTUAL TABLE words USING fts5 (title, body, marks, content = '', tokenize = 'ascii tokenchars ''_=''');
DELETE FROM words_data;
DELETE FROM words_idx;
INSERT INTO words_data SELECT * FROM words_before_data;
INSERT INTO words_idx SELECT * FROM words_before_idx;
INSERT INTO words_docsize SELECT * FROM words_before_docsize;
DROP TABLE words_before;

INSERT INTO rebuilds (step, before_id)
SELECT step, 4611686018427387904 FROM (
  SELECT 'smaller_observations' AS step UNION ALL SELECT 'smaller_events' UNION ALL SELECT 'smaller_words' UNION ALL SELECT 'vacuum')
WHERE EXISTS (SELECT 1 FROM sdk_sessions);
