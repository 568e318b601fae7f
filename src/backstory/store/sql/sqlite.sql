-- Queries in SQLite's own form.

-- part: in_ids
IN (SELECT value FROM json_each(:ids))

-- part: among_ids
IN (SELECT value FROM json_each(:ids))

-- name: schema_lock
-- SQLite has one writer, so nothing is locked.
SELECT 1 AS locked;

-- name: session_hold
-- SQLite has one writer, so nothing is locked.
SELECT * FROM sdk_sessions WHERE id = :id;

-- part: queue_lock
-- SQLite has one writer, so nothing is locked.

-- name: schema_versions_create
CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL);

-- name: words_put
INSERT INTO words (rowid, body, title, marks) VALUES (:number, :body, :title, :marks);

-- name: words_remove
-- FTS5 has only the index, so it must be told what to remove from it.
INSERT INTO words (words, rowid, body, title, marks) VALUES ('delete', :number, :body, :title, :marks);

-- name: word_text
SELECT title, unpacked(body) AS body, marks FROM word_texts WHERE words_rowid = :number;

-- name: word_text_put
INSERT INTO word_texts (words_rowid, length, title, body, marks) VALUES (:number, :length, :title, :body, :marks);

-- name: word_text_remove
DELETE FROM word_texts WHERE words_rowid = :number;

-- name: word_texts_without_marks
SELECT words_rowid AS id, body FROM word_texts WHERE words_rowid < :before AND marks IS NULL ORDER BY words_rowid DESC LIMIT :limit;

-- name: word_text_pack
UPDATE word_texts SET body = :body, marks = :marks WHERE words_rowid = :id;

-- name: events_unpacked
-- Also those that were compressed without a dictionary: their first bytes say so.
SELECT id, payload FROM events
WHERE id < :before AND ((typeof(payload) = 'text' AND LENGTH(payload) >= :least) OR substr(payload, 1, 2) = x'789c')
ORDER BY id DESC LIMIT :limit;

-- name: words_counts
-- The number of rows for each match, up to a limit, and the highest of their ids.
SELECT (SELECT json_array(COUNT(*), MAX(number)) FROM (
    SELECT words.rowid AS number FROM words WHERE words MATCH asked.value LIMIT :budget)) AS count_and_last
FROM json_each(:matches) asked ORDER BY asked.key;

-- name: words_rows
-- The row ids of each match. Times are checked only if the filter has any.
SELECT (SELECT json_group_array(number) FROM (
    SELECT words.rowid AS number FROM words WHERE words MATCH asked.value
      AND ((:since = '' AND :until = '') OR EXISTS (
        SELECT 1 FROM word_rows r WHERE r.words_rowid = words.rowid AND r.at >= :since AND (:until = '' OR r.at <= :until || '~'))))) AS numbers
FROM json_each(:matches) asked ORDER BY asked.key;

-- name: words_rows_of_project
-- The row ids of each match that are observations of a project. The project is checked row by row: the index has a long
-- list of its rows, too.
SELECT (SELECT json_group_array(words.rowid) FROM words CROSS JOIN word_rows r ON r.words_rowid = words.rowid
  WHERE words MATCH asked.value AND r.kind = 'observation' AND (r.project_key = :project_key OR r.project = :project_key)) AS numbers
FROM json_each(:matches) asked ORDER BY asked.key;

-- name: words_scored
-- An approximate score. The plus sign keeps FTS5 from looking up each row id by itself.
SELECT words.rowid AS number, bm25(words, 1.0, 3.0, 0.0) AS score FROM words
WHERE words MATCH :asked AND +words.rowid IN (SELECT value FROM json_each(:numbers))
ORDER BY score, words.rowid DESC LIMIT :limit;

-- name: words_newest
SELECT words.rowid AS number FROM words WHERE words MATCH :asked AND words.rowid > :after ORDER BY words.rowid DESC LIMIT :limit;

-- name: words_heads
-- Titles and lengths of rows that pass a filter.
SELECT r.words_rowid AS number, r.session_id, t.title, t.length FROM json_each(:numbers) n
CROSS JOIN word_rows r ON r.words_rowid = n.value CROSS JOIN word_texts t ON t.words_rowid = n.value
WHERE instr(:kinds, r.kind) > 0 AND (:project = '' OR r.project = :project OR r.project_key = :project)
  AND (:session_id = 0 OR r.session_id = :session_id) AND (:outside = 0 OR substr(r.project_key, 1, 6) <> 'group:')
  AND r.at >= :since AND (:until = '' OR r.at <= :until || '~');

-- name: word_rows_of
SELECT r.words_rowid AS number, r.kind, r.item_id, r.session_id, r.at FROM json_each(:numbers) n
CROSS JOIN word_rows r ON r.words_rowid = n.value;

-- name: words_texts
SELECT r.words_rowid AS number, t.title, unpacked_body(t.body) AS body, r.kind, r.item_id, r.session_id, r.at
FROM json_each(:numbers) n
CROSS JOIN word_texts t ON t.words_rowid = n.value CROSS JOIN word_rows r ON r.words_rowid = n.value;

-- name: vector_put
INSERT INTO vectors (embedder_id, kind, item_id, session_id, at, vector, scale)
VALUES (:embedder_id, :kind, :item_id, :session_id, :at, :vector, :scale);

-- name: vectors_page
SELECT id, kind, session_id, at, vector, scale FROM vectors WHERE embedder_id = :embedder_id AND id > :after ORDER BY id LIMIT :limit;

-- name: vectors_some
SELECT id, vector, scale FROM vectors WHERE id IN (SELECT value FROM json_each(:ids));

-- name: vector_items
SELECT v.id, v.kind, v.item_id, v.session_id, v.at FROM vectors v WHERE v.id IN (SELECT value FROM json_each(:ids))
  AND v.at >= :since AND (:until = '' OR v.at <= :until || '~')
  AND ((:type = '' AND :concept = '' AND :file = '') OR (v.kind = 'observation' AND EXISTS (
    SELECT 1 FROM observations o WHERE o.id = v.item_id
      AND (:type = '' OR o.type = :type) AND (:concept = '' OR instr(o.concepts, :concept) > 0)
      AND (:file = '' OR instr(lower(o.files_read || o.files_modified), '"' || :file || '"') > 0
        OR instr(lower(o.files_read || o.files_modified), '/' || :file || '"') > 0))));

-- name: vectors_sessions
SELECT json_group_array(id) AS ids FROM sdk_sessions
WHERE (:project = '' OR project = :project OR project_key = :project) AND (:agent = '' OR agent = :agent)
  AND (:session_id = 0 OR id = :session_id) AND (:outside = 0 OR substr(project_key, 1, 6) <> 'group:')
  AND (:inside = 0 OR substr(project_key, 1, 6) = 'group:');

-- name: vectors_can
SELECT TRUE AS can;

-- name: vectors_dims
SELECT LENGTH(vector) AS dims FROM vectors WHERE embedder_id = :embedder_id LIMIT 1;

-- name: vectors_tune
SELECT '' AS value;

-- name: vectors_make_index
-- SQLite has no such index. Vectors are compared in memory.
SELECT :id AS id, :dims AS dims;

-- name: vectors_drop_index
SELECT :id AS id;

-- name: words_optimize
-- Merges all segments, so that words of deleted rows are in none.
INSERT INTO words (words) VALUES ('optimize');

-- name: sequences_advance
-- SQLite continues after the highest id by itself.
SELECT 1 AS done;

-- name: items_containing
-- Items that contain a text in any column, ignoring case. `in_json` is the text as JSON escapes it.
SELECT 'observation' AS kind, o.id FROM observations o
WHERE (:project = '' OR o.project = :project OR o.project_key = :project)
  AND (instr(folded(o.title || char(10) || o.subtitle || char(10) || o.narrative || char(10) || COALESCE(o.tool_response_text, '')), :needle) > 0
    OR instr(folded(o.facts || o.concepts || o.files_read || o.files_modified || o.compressed_observation || COALESCE(o.tool_input_json, '')), :in_json) > 0)
UNION ALL
SELECT 'summary', m.id FROM session_summaries m
WHERE (:project = '' OR m.project = :project OR m.project_key = :project)
  AND instr(folded(m.request || char(10) || m.investigated || char(10) || m.learned || char(10) || m.completed || char(10) || m.next_steps || char(10) || m.notes), :needle) > 0
UNION ALL
SELECT 'prompt', p.id FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id
WHERE (:project = '' OR s.project = :project OR s.project_key = :project) AND instr(folded(p.prompt), :needle) > 0
UNION ALL
SELECT 'turn', t.id FROM turns t JOIN sdk_sessions s ON s.id = t.session_id
WHERE (:project = '' OR s.project = :project OR s.project_key = :project)
  AND t.text IS NOT NULL AND instr(folded(t.text || char(10) || COALESCE(t.speaker, '')), :needle) > 0
LIMIT :limit;

-- name: sessions_containing
SELECT 'session' AS kind, id FROM sdk_sessions s
WHERE (:project = '' OR project = :project OR project_key = :project)
  AND (instr(folded(COALESCE(title, '') || char(10) || COALESCE(first_user_prompt, '') || char(10) || COALESCE(git_branch, '')), :needle) > 0
    OR EXISTS (SELECT 1 FROM session_titles t WHERE t.session_id = s.id AND instr(folded(t.title), :needle) > 0)
    OR EXISTS (SELECT 1 FROM session_tags g WHERE g.session_id = s.id AND instr(folded(g.tag), :needle) > 0));

-- name: forgotten_texts_among
SELECT mark, moment FROM forgotten_texts WHERE mark IN (SELECT value FROM json_each(:marks));

-- name: events_containing
-- Events whose payload or tool name contains a text, ignoring case.
SELECT e.id, e.session_id, e.event_id, e.tool_use_id, e.kind, e.prompt_number FROM events e JOIN sdk_sessions s ON s.id = e.session_id
WHERE e.payload IS NOT NULL
  AND (instr(folded(unpacked(e.payload)), :in_json) > 0 OR instr(folded(COALESCE(e.tool_name, '')), :needle) > 0) AND (:project = '' OR s.project = :project OR s.project_key = :project) AND e.id > :after
ORDER BY e.id LIMIT :limit;

-- name: kept_containing
-- Entries of kept transcripts that contain a text, ignoring case.
SELECT e.id, k.session_id FROM transcript_entries e JOIN kept_transcripts k ON k.id = e.transcript_id
JOIN sdk_sessions s ON s.id = k.session_id
WHERE instr(folded(unpacked(e.payload)), :in_json) > 0 AND (:project = '' OR s.project = :project OR s.project_key = :project);

-- name: table_sizes
-- Bytes on disk by table, with its indexes. Every page is read, one by one, so that it can be interrupted.
SELECT m.tbl_name AS name, SUM(d.bytes) AS bytes FROM (SELECT name, SUM(pgsize) AS bytes FROM dbstat GROUP BY name) d
JOIN sqlite_schema m ON m.name = d.name GROUP BY m.tbl_name ORDER BY bytes DESC;

-- name: item_words
SELECT r.kind, r.item_id, r.session_id, t.title, unpacked_body(t.body) AS body FROM json_each(:keys) k
CROSS JOIN word_rows r ON r.kind = json_extract(k.value, '$[0]') AND r.item_id = json_extract(k.value, '$[1]')
CROSS JOIN word_texts t ON t.words_rowid = r.words_rowid;
