-- What is said in SQLite's own way.

-- name: schema_lock
-- Its one writer needs none.
SELECT 1 AS locked;

-- name: session_hold
-- Its one writer needs none.
SELECT * FROM sdk_sessions WHERE id = :id;

-- part: queue_lock
-- Not needed: there is one writer.

-- name: schema_versions_exist
CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL);

-- name: words_put
INSERT OR REPLACE INTO words (rowid, title, body, marks) VALUES (:number, :title, :body, :marks);

-- name: words_counts
-- How many rows match each, up to a limit, and how far down the last of them stands.
SELECT (SELECT json_array(COUNT(*), MAX(number)) FROM (
    SELECT words.rowid AS number FROM words WHERE words MATCH asked.value LIMIT :budget)) AS found
FROM json_each(:matches) asked ORDER BY asked.key;

-- name: words_rows
-- The rows of each. How old they are is asked only where it matters.
SELECT (SELECT json_group_array(number) FROM (
    SELECT words.rowid AS number FROM words WHERE words MATCH asked.value
      AND ((:since = '' AND :until = '') OR EXISTS (
        SELECT 1 FROM word_rows r WHERE r.words_rowid = words.rowid AND r.at >= :since AND (:until = '' OR r.at <= :until || '~'))))) AS found
FROM json_each(:matches) asked ORDER BY asked.key;

-- name: words_scored
-- Roughly the best of some rows. (With the plus they are no key: FTS5 would look for each by itself.)
SELECT words.rowid AS number, bm25(words, 3.0, 1.0, 0.0) AS score FROM words
WHERE words MATCH :asked AND +words.rowid IN (SELECT value FROM json_each(:numbers))
ORDER BY score, words.rowid DESC LIMIT :limit;

-- name: words_newest
SELECT words.rowid AS number FROM words WHERE words MATCH :asked AND words.rowid > :after ORDER BY words.rowid DESC LIMIT :limit;

-- name: words_found
SELECT r.words_rowid AS number, r.kind, r.item_id, r.session_id, r.at FROM json_each(:numbers) n
CROSS JOIN word_rows r ON r.words_rowid = n.value;

-- name: words_texts
SELECT w.rowid AS number, w.title, w.body, r.kind, r.item_id, r.session_id, r.at FROM json_each(:numbers) n
CROSS JOIN words w ON w.rowid = n.value CROSS JOIN word_rows r ON r.words_rowid = n.value;

-- name: vector_put
INSERT INTO vectors (embedder_id, kind, item_id, session_id, at, vector, scale)
VALUES (:embedder_id, :kind, :item_id, :session_id, :at, :vector, :scale);

-- name: vectors_page
-- To be held in memory, in the order of their ids.
SELECT id, kind, session_id, at, vector, scale FROM vectors WHERE embedder_id = :embedder_id AND id > :after ORDER BY id LIMIT :limit;

-- name: vectors_some
SELECT id, vector, scale FROM vectors WHERE id IN (SELECT value FROM json_each(:ids));

-- name: vectors_whose
-- What they are the vectors of.
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
  AND (:session_id = 0 OR id = :session_id);

-- name: vectors_can
-- Whether the engine keeps vectors.
SELECT TRUE AS can;

-- name: vectors_dims
SELECT LENGTH(vector) AS dims FROM vectors WHERE embedder_id = :embedder_id LIMIT 1;

-- name: vectors_tune
SELECT '' AS value;

-- name: vectors_make_index
-- Theirs is in memory.
SELECT :id AS id, :dims AS dims;

-- name: vectors_drop_index
SELECT :id AS id;

-- name: found_observations
SELECT o.id, o.session_id, o.prompt_number, o.type, o.title, o.subtitle, o.project, o.created_at, o.pinned_at, o.superseded_by,
  s.agent, s.content_session_id
FROM observations o JOIN sdk_sessions s ON s.id = o.session_id WHERE o.id IN (SELECT value FROM json_each(:ids));

-- name: observations_standing
SELECT id, type, title, created_at, pinned_at, superseded_by FROM observations WHERE id IN (SELECT value FROM json_each(:ids));

-- name: found_summaries
SELECT m.id, m.session_id, m.prompt_number, m.request AS title, m.completed AS subtitle, m.project, m.created_at,
  s.agent, s.content_session_id
FROM session_summaries m JOIN sdk_sessions s ON s.id = m.session_id WHERE m.id IN (SELECT value FROM json_each(:ids));

-- name: found_prompts
SELECT p.id, p.session_id, p.prompt_number, p.prompt AS title, '' AS subtitle, s.project, p.created_at,
  s.agent, s.content_session_id
FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id WHERE p.id IN (SELECT value FROM json_each(:ids));

-- name: found_turns
SELECT t.id, t.session_id, t.prompt_number, t.number AS turn, t.role, t.text AS title, '' AS subtitle, s.project,
  t.at AS created_at, s.agent, s.content_session_id
FROM turns t JOIN sdk_sessions s ON s.id = t.session_id WHERE t.id IN (SELECT value FROM json_each(:ids));

-- name: words_optimize
-- One segment: words of rows that are gone are in none.
INSERT INTO words (words) VALUES ('optimize');

-- name: keys_follow
-- After rows came with ids of their own. SQLite sees to it itself.
SELECT 1 AS done;

-- name: items_holding
-- What has a text in any of its columns, letters large or small; `in_json` is the same as JSON writes it.
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

-- name: sessions_holding
SELECT 'session' AS kind, id FROM sdk_sessions
WHERE (:project = '' OR project = :project OR project_key = :project)
  AND instr(folded(COALESCE(title, '') || char(10) || COALESCE(first_user_prompt, '') || char(10) || COALESCE(git_branch, '')), :needle) > 0;

-- name: forgotten_texts_among
SELECT mark, moment FROM forgotten_texts WHERE mark IN (SELECT value FROM json_each(:marks));

-- name: events_holding
-- Events whose payload or tool has a text, letters large or small.
SELECT e.id, e.session_id, e.event_id, e.tool_use_id, e.kind, e.prompt_number FROM events e JOIN sdk_sessions s ON s.id = e.session_id
WHERE e.payload IS NOT NULL
  AND (instr(folded(unpacked(e.payload)), :in_json) > 0 OR instr(folded(COALESCE(e.tool_name, '')), :needle) > 0) AND (:project = '' OR s.project = :project OR s.project_key = :project) AND e.id > :after
ORDER BY e.id LIMIT :limit;

-- name: table_sizes
-- Bytes on disk by table, its indexes with it.
SELECT m.tbl_name AS name, SUM(d.pgsize) AS bytes FROM dbstat d JOIN sqlite_schema m ON m.name = d.name
WHERE d.aggregate = TRUE GROUP BY m.tbl_name ORDER BY bytes DESC;

-- name: observation_marks
-- What the files of some observations held, and where they are.
SELECT f.observation_id, f.path, f.mark, s.cwd
FROM observation_files f JOIN observations o ON o.id = f.observation_id JOIN sdk_sessions s ON s.id = o.session_id
WHERE f.observation_id IN (SELECT value FROM json_each(:ids));

-- name: turns_around
-- Turns and those that stand so many places before and after them, without what was said.
SELECT DISTINCT t.id, t.session_id, t.number, t.role, t.speaker, LENGTH(t.text) AS length, t.at
FROM turns h JOIN turns t ON t.session_id = h.session_id AND t.number BETWEEN h.number - :around AND h.number + :around
WHERE h.id IN (SELECT value FROM json_each(:ids)) AND t.text IS NOT NULL;

-- name: chunk_spans
SELECT id, session_id, first_turn, last_turn FROM chunks WHERE id IN (SELECT value FROM json_each(:ids));

-- name: found_chunks
SELECT c.id, c.session_id, c.first_turn AS turn, c.text AS title, '' AS subtitle, c.at AS created_at
FROM chunks c WHERE c.id IN (SELECT value FROM json_each(:ids));

-- name: found_sessions
SELECT s.id, s.id AS session_id, COALESCE(s.title, s.first_user_prompt, '') AS title, '' AS subtitle, s.project, s.status,
  s.created_at, s.last_event_at, s.agent, s.content_session_id
FROM sdk_sessions s WHERE s.id IN (SELECT value FROM json_each(:ids)) AND s.forgotten_at IS NULL;

-- name: words_said
SELECT r.kind, r.item_id, w.title, w.body FROM json_each(:keys) k
CROSS JOIN word_rows r ON r.kind = json_extract(k.value, '$[0]') AND r.item_id = json_extract(k.value, '$[1]')
CROSS JOIN words w ON w.rowid = r.words_rowid;
