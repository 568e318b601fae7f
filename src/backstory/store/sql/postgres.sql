-- What is said in PostgreSQL's own way.

-- name: schema_lock
-- Workers that start at the same time go one after the other.
SELECT pg_advisory_xact_lock(7021941) IS NULL AS locked;

-- name: schema_versions_exist
CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL);

-- name: session_hold
-- Whoever else writes to this session waits until we are done.
SELECT * FROM sdk_sessions WHERE id = :id FOR NO KEY UPDATE;

-- name: sessions_like
-- By the agent's id or the beginning of one, in any case.
SELECT * FROM sdk_sessions WHERE content_session_id = :id OR content_session_id ILIKE :prefix ESCAPE '\' ORDER BY id DESC LIMIT 3;

-- part: queue_lock
-- Passes over a round that another worker is taking, so two workers never get the same one.
FOR UPDATE OF e SKIP LOCKED

-- name: queue_round
-- The open events of a round, oldest first, held so that nobody drops one while it is taken.
SELECT * FROM events
WHERE session_id = :session_id AND prompt_number = :prompt_number AND status IN ('queued', 'leased')
  AND id >= :head AND (:alone = 0 OR id = :head)
ORDER BY id LIMIT :limit FOR UPDATE;

-- name: queue_release
-- What this worker had taken before it was gone, and what ran out. Another's is left alone.
UPDATE events SET status = 'queued', lease_until = NULL, lease_owner = NULL
WHERE status = 'leased' AND (lease_until <= :now OR starts_with(lease_owner, :worker));

-- name: words_put
INSERT INTO words (rowid, title, body, tokens) VALUES (:number, :title, :body, CAST(:tokens AS tsvector))
ON CONFLICT (rowid) DO UPDATE SET title = excluded.title, body = excluded.body, tokens = excluded.tokens;

-- name: words_counts
-- How many rows match each, up to a limit, and how far down the last of them stands. Of common words the server knows
-- it well enough, from the last time that it looked: counting them would take longer than the whole search.
WITH known AS MATERIALIZED (
  SELECT e.token, e.share FROM pg_stats s,
    LATERAL unnest(CAST(CAST(s.most_common_elems AS text) AS text[]), s.most_common_elem_freqs) AS e (token, share)
  WHERE s.schemaname = current_schema() AND s.tablename = 'words' AND s.attname = 'tokens'
    AND e.token IS NOT NULL AND e.share * CAST(:last AS float8) > 0.1 * CAST(:budget AS float8)
)
SELECT COALESCE(
  (SELECT CAST(json_build_array(CAST(k.share * CAST(:last AS float8) AS bigint), CAST(CAST(:budget AS float8) / k.share AS bigint)) AS text)
   FROM known k WHERE k.token = btrim(asked.value, $$()'$$) LIMIT 1),
  (SELECT CAST(json_build_array(COUNT(*), MAX(number)) AS text) FROM (
    SELECT w.rowid AS number FROM words w WHERE w.tokens @@ CAST(asked.value AS tsquery) LIMIT :budget) counted)) AS found
FROM jsonb_array_elements_text(CAST(:matches AS jsonb)) WITH ORDINALITY AS asked (value, number) ORDER BY asked.number;

-- name: words_rows
-- The rows of each. How old they are is asked only where it matters.
SELECT CAST(COALESCE((SELECT json_agg(w.rowid) FROM words w WHERE w.tokens @@ CAST(asked.value AS tsquery)
  AND ((:since = '' AND :until = '') OR EXISTS (
    SELECT 1 FROM word_rows r WHERE r.words_rowid = w.rowid AND r.at >= :since AND (:until = '' OR r.at <= :until || '~')))),
  '[]') AS text) AS found
FROM jsonb_array_elements_text(CAST(:matches AS jsonb)) WITH ORDINALITY AS asked (value, number) ORDER BY asked.number;

-- name: words_scored
-- Roughly the best of some rows: each term by how rare it is, a title before a body, a long text held back.
WITH terms AS MATERIALIZED (
  SELECT CAST(t ->> 0 AS tsquery) AS query, CAST(t ->> 1 AS float8) AS weight FROM jsonb_array_elements(CAST(:terms AS jsonb)) t
)
SELECT w.rowid AS number,
  -(SELECT COALESCE(SUM(t.weight * ts_rank('{0.1, 0.1, 0.33, 1}', w.tokens, t.query, 1)), 0) FROM terms t) AS score
FROM words w WHERE w.rowid = ANY(ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(CAST(:numbers AS jsonb))))
ORDER BY score, w.rowid DESC LIMIT :limit;

-- name: words_newest
SELECT w.rowid AS number FROM words w WHERE w.tokens @@ CAST(:asked AS tsquery) AND w.rowid > :after
ORDER BY w.rowid DESC LIMIT :limit;

-- name: words_found
SELECT words_rowid AS number, kind, item_id, session_id, at FROM word_rows
WHERE words_rowid = ANY(ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(CAST(:numbers AS jsonb))));

-- name: words_texts
SELECT w.rowid AS number, w.title, w.body, r.kind, r.item_id, r.session_id, r.at
FROM words w JOIN word_rows r ON r.words_rowid = w.rowid
WHERE w.rowid = ANY(ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(CAST(:numbers AS jsonb))));

-- name: vector_put
INSERT INTO vectors (embedder_id, kind, item_id, session_id, at, vector)
VALUES (:embedder_id, :kind, :item_id, :session_id, :at, :vector);

-- name: vectors_near
SELECT * FROM vectors_nearest(
  :embedder_id, :query, :kinds, :project, :agent, :session_id, :type, :concept, :file, :since, :until, :limit);

-- name: vectors_tune
-- A filter is looked behind until enough is found. (A pgvector before 0.8 has no such setting.)
SELECT set_config(s.name, given.value, true) AS value
FROM (VALUES ('hnsw.ef_search', '200'), ('hnsw.iterative_scan', 'relaxed_order'), ('hnsw.max_scan_tuples', '200000')) given (name, value)
JOIN pg_settings s ON s.name = given.name
WHERE '[1]'::halfvec IS NOT NULL; -- its settings are there once it is used

-- name: vectors_can
-- Whether the server has pgvector.
SELECT vectors_can() AS can;

-- name: vectors_make_index
SELECT vectors_make_index(:id, :dims) AS done;

-- name: vectors_drop_index
SELECT vectors_drop_index(:id) AS done;

-- name: vectors_dims
SELECT vector_dims(vector) AS dims FROM vectors WHERE embedder_id = :embedder_id LIMIT 1;

-- name: found_observations
SELECT o.id, o.session_id, o.prompt_number, o.type, o.title, o.subtitle, o.project, o.created_at, o.pinned_at, o.superseded_by,
  s.agent, s.content_session_id
FROM observations o JOIN sdk_sessions s ON s.id = o.session_id
WHERE o.id = ANY(ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb))));

-- name: observations_standing
SELECT id, type, title, created_at, pinned_at, superseded_by FROM observations WHERE id = ANY(ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb))));

-- name: found_summaries
SELECT m.id, m.session_id, m.prompt_number, m.request AS title, m.completed AS subtitle, m.project, m.created_at,
  s.agent, s.content_session_id
FROM session_summaries m JOIN sdk_sessions s ON s.id = m.session_id
WHERE m.id IN (SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: found_prompts
SELECT p.id, p.session_id, p.prompt_number, p.prompt AS title, '' AS subtitle, s.project, p.created_at,
  s.agent, s.content_session_id
FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id
WHERE p.id IN (SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: found_turns
SELECT t.id, t.session_id, t.prompt_number, t.number AS turn, t.role, t.text AS title, '' AS subtitle, s.project,
  t.at AS created_at, s.agent, s.content_session_id
FROM turns t JOIN sdk_sessions s ON s.id = t.session_id
WHERE t.id IN (SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: words_optimize
-- The index forgets with its rows.
SELECT 1 AS done;

-- name: keys_follow
-- After rows came with ids of their own, the next ones go on from there.
SELECT
  setval(pg_get_serial_sequence('sdk_sessions', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM sdk_sessions), false),
  setval(pg_get_serial_sequence('session_moves', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM session_moves), false),
  setval(pg_get_serial_sequence('user_prompts', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM user_prompts), false),
  setval(pg_get_serial_sequence('events', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM events), false),
  setval(pg_get_serial_sequence('observations', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM observations), false),
  setval(pg_get_serial_sequence('session_summaries', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM session_summaries), false),
  setval(pg_get_serial_sequence('turns', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM turns), false),
  setval(pg_get_serial_sequence('session_history', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM session_history), false);

-- name: items_holding
-- What has a text in any of its columns, letters large or small; `in_json` is the same as JSON writes it.
SELECT 'observation' AS kind, o.id FROM observations o
WHERE (:project = '' OR o.project = :project OR o.project_key = :project)
  AND (strpos(lower(o.title || E'\n' || o.subtitle || E'\n' || o.narrative || E'\n' || COALESCE(o.tool_response_text, '')), :needle) > 0
    OR strpos(lower(o.facts || o.concepts || o.files_read || o.files_modified || o.compressed_observation || COALESCE(o.tool_input_json, '')), :in_json) > 0)
UNION ALL
SELECT 'summary', m.id FROM session_summaries m
WHERE (:project = '' OR m.project = :project OR m.project_key = :project)
  AND strpos(lower(m.request || E'\n' || m.investigated || E'\n' || m.learned || E'\n' || m.completed || E'\n' || m.next_steps || E'\n' || m.notes), :needle) > 0
UNION ALL
SELECT 'prompt', p.id FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id
WHERE (:project = '' OR s.project = :project OR s.project_key = :project) AND strpos(lower(p.prompt), :needle) > 0
UNION ALL
SELECT 'turn', t.id FROM turns t JOIN sdk_sessions s ON s.id = t.session_id
WHERE (:project = '' OR s.project = :project OR s.project_key = :project)
  AND t.text IS NOT NULL AND strpos(lower(t.text || E'\n' || COALESCE(t.speaker, '')), :needle) > 0
LIMIT :limit;

-- name: sessions_holding
SELECT 'session' AS kind, id FROM sdk_sessions
WHERE (:project = '' OR project = :project OR project_key = :project)
  AND strpos(lower(COALESCE(title, '') || E'\n' || COALESCE(first_user_prompt, '') || E'\n' || COALESCE(git_branch, '')), :needle) > 0;

-- name: forgotten_texts_among
SELECT mark, moment FROM forgotten_texts WHERE mark IN (SELECT json_array_elements_text(CAST(:marks AS json)));

-- name: events_holding
-- Events whose payload or tool has a text, letters large or small.
SELECT e.id, e.session_id, e.event_id, e.tool_use_id, e.kind, e.prompt_number FROM events e JOIN sdk_sessions s ON s.id = e.session_id
WHERE e.payload IS NOT NULL
  AND (strpos(lower(e.payload), :in_json) > 0 OR strpos(lower(COALESCE(e.tool_name, '')), :needle) > 0) AND (:project = '' OR s.project = :project OR s.project_key = :project) AND e.id > :after
ORDER BY e.id LIMIT :limit;

-- name: table_sizes
-- Bytes on disk by table, its indexes with it.
SELECT relname AS name, pg_total_relation_size(relid) AS bytes FROM pg_stat_user_tables
WHERE schemaname = current_schema() ORDER BY bytes DESC;

-- name: observation_marks
-- What the files of some observations held, and where they are.
SELECT f.observation_id, f.path, f.mark, s.cwd
FROM observation_files f JOIN observations o ON o.id = f.observation_id JOIN sdk_sessions s ON s.id = o.session_id
WHERE f.observation_id IN (SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: turns_around
-- Turns and those that stand so many places before and after them, without what was said.
SELECT DISTINCT t.id, t.session_id, t.number, t.role, t.speaker, LENGTH(t.text) AS length, t.at
FROM turns h JOIN turns t ON t.session_id = h.session_id AND t.number BETWEEN h.number - :around AND h.number + :around
WHERE h.id = ANY(ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb)))) AND t.text IS NOT NULL;

-- name: chunk_spans
SELECT id, session_id, first_turn, last_turn FROM chunks WHERE id IN (SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: found_chunks
SELECT c.id, c.session_id, c.first_turn AS turn, c.text AS title, '' AS subtitle, c.at AS created_at
FROM chunks c WHERE c.id IN (SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: found_sessions
SELECT s.id, s.id AS session_id, COALESCE(s.title, s.first_user_prompt, '') AS title, '' AS subtitle, s.project, s.status,
  s.created_at, s.last_event_at, s.agent, s.content_session_id
FROM sdk_sessions s WHERE s.id IN (SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb))) AND s.forgotten_at IS NULL;

-- name: words_said
SELECT r.kind, r.item_id, w.title, w.body FROM jsonb_array_elements(CAST(:keys AS jsonb)) k
JOIN word_rows r ON r.kind = k ->> 0 AND r.item_id = (k ->> 1)::bigint JOIN words w ON w.rowid = r.words_rowid;
