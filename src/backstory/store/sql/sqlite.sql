-- What is said in SQLite's own way.

-- name: schema_lock
-- Its one writer needs none.
SELECT 1 AS locked;

-- name: session_hold
-- Its one writer needs none.
SELECT * FROM sdk_sessions WHERE id = :id;

-- name: schema_versions_exist
CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL);

-- name: words_add
INSERT INTO words (title, body, kind, item_id, project_key, project)
VALUES (:title, :body, :kind, :item_id, :project_key, :project);

-- name: words_added
-- Asked for by itself: RETURNING does not know the row of a virtual table.
SELECT last_insert_rowid() AS rowid;

-- name: words_remove
DELETE FROM words WHERE rowid = :words_rowid;

-- name: words_find
-- Best first; a title counts three times. What a row belongs to is asked of word_rows: the words' own row holds the whole
-- text, and would be read for every match.
SELECT r.kind, r.item_id, bm25(words, 3.0, 1.0) AS score FROM words CROSS JOIN word_rows r ON r.words_rowid = words.rowid
WHERE words MATCH (
    SELECT group_concat('"' || value || '"', CASE WHEN :every = 1 THEN ' AND ' ELSE ' OR ' END) FROM json_each(:terms))
  AND (:project = '' OR r.project = :project OR r.project_key = :project)
  AND (:kind = '' OR r.kind = :kind)
ORDER BY score, r.words_rowid DESC LIMIT :limit OFFSET :skip;

-- name: found_observations
SELECT o.id, o.session_id, o.prompt_number, o.type, o.title, o.subtitle, o.project, o.created_at, o.pinned_at, o.superseded_by,
  s.agent, s.content_session_id
FROM observations o JOIN sdk_sessions s ON s.id = o.session_id WHERE o.id IN (SELECT value FROM json_each(:ids));

-- name: found_summaries
SELECT m.id, m.session_id, m.prompt_number, m.request AS title, m.completed AS subtitle, m.project, m.created_at,
  s.agent, s.content_session_id
FROM session_summaries m JOIN sdk_sessions s ON s.id = m.session_id WHERE m.id IN (SELECT value FROM json_each(:ids));

-- name: found_prompts
SELECT p.id, p.session_id, p.prompt_number, p.prompt AS title, '' AS subtitle, s.project, p.created_at,
  s.agent, s.content_session_id
FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id WHERE p.id IN (SELECT value FROM json_each(:ids));

-- name: words_optimize
-- One segment: words of rows that are gone are in none.
INSERT INTO words (words) VALUES ('optimize');

-- name: keys_follow
-- After rows came with ids of their own. SQLite sees to it itself.
SELECT 1 AS done;

-- name: events_holding
-- Events whose payload has a text, letters large or small.
SELECT e.id, e.session_id, e.event_id, e.tool_use_id, e.kind, e.prompt_number FROM events e JOIN sdk_sessions s ON s.id = e.session_id
WHERE e.payload LIKE :like ESCAPE '\' AND (:project = '' OR s.project = :project OR s.project_key = :project) AND e.id > :after
ORDER BY e.id LIMIT :limit;

-- name: table_sizes
-- Bytes on disk by table, its indexes with it.
SELECT m.tbl_name AS name, SUM(d.pgsize) AS bytes FROM dbstat d JOIN sqlite_schema m ON m.name = d.name
WHERE d.aggregate = TRUE GROUP BY m.tbl_name ORDER BY bytes DESC;
