-- Queries in PostgreSQL's own form.

-- part: in_ids
IN (SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb)))

-- part: among_ids
-- An array, so that each id is looked up in the index.
= ANY(ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(CAST(:ids AS jsonb))))

-- name: schema_lock
-- Workers that start at the same time migrate one after the other.
SELECT pg_advisory_xact_lock(7021941) IS NULL AS locked;

-- name: schema_versions_create
CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL);

-- name: read_limits
-- For a read that somebody waits for: the server interrupts a query that takes too long.
SELECT set_config('statement_timeout', :milliseconds, true) AS value;

-- name: session_hold
-- Other writers of this session wait until this transaction ends.
SELECT * FROM sdk_sessions WHERE id = :id FOR NO KEY UPDATE;

-- name: sessions_like
-- By the agent's id or the beginning of one, in any case.
SELECT * FROM sdk_sessions WHERE content_session_id = :id OR content_session_id ILIKE :prefix ESCAPE '\' ORDER BY id DESC LIMIT 3;

-- part: queue_lock
-- Skips a round that another worker is claiming.
FOR UPDATE OF e SKIP LOCKED

-- name: queue_round
-- The open events of a round, oldest first. They are locked, so that none is dropped meanwhile.
SELECT * FROM events
WHERE session_id = :session_id AND prompt_number = :prompt_number AND status IN ('queued', 'leased')
  AND id >= :head AND (:alone = 0 OR id = :head)
ORDER BY id LIMIT :limit FOR UPDATE;

-- name: queue_release
-- Releases the leases of this worker, and those that ran out. Leases of other workers stay.
UPDATE events SET status = 'queued', lease_until = NULL, lease_owner = NULL
WHERE status = 'leased' AND (lease_until <= :now OR starts_with(lease_owner, :worker));

-- name: words_put
INSERT INTO words (rowid, title, body, tokens) VALUES (:number, :title, :body, CAST(:tokens AS tsvector))
ON CONFLICT (rowid) DO UPDATE SET title = excluded.title, body = excluded.body, tokens = excluded.tokens;

-- name: words_remove
DELETE FROM words WHERE rowid = :number;

-- name: words_counts
-- The number of rows for each match, up to a limit, and the highest of their ids. Counting common words would take longer
-- than the search, so their counts are estimated from the server's statistics.
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
    SELECT w.rowid AS number FROM words w WHERE w.tokens @@ CAST(asked.value AS tsquery) LIMIT :budget) counted)) AS count_and_last
FROM jsonb_array_elements_text(CAST(:matches AS jsonb)) WITH ORDINALITY AS asked (value, number) ORDER BY asked.number;

-- name: words_rows
-- The row ids of each match. Times are checked only if the filter has any.
SELECT CAST(COALESCE((SELECT json_agg(w.rowid) FROM words w WHERE w.tokens @@ CAST(asked.value AS tsquery)
  AND ((:since = '' AND :until = '') OR EXISTS (
    SELECT 1 FROM word_rows r WHERE r.words_rowid = w.rowid AND r.at >= :since AND (:until = '' OR r.at <= :until || '~')))),
  '[]') AS text) AS numbers
FROM jsonb_array_elements_text(CAST(:matches AS jsonb)) WITH ORDINALITY AS asked (value, number) ORDER BY asked.number;

-- name: words_rows_of_project
-- The row ids of each match that are observations of a project.
SELECT CAST(COALESCE((SELECT json_agg(w.rowid) FROM words w JOIN word_rows r ON r.words_rowid = w.rowid
  WHERE w.tokens @@ CAST(asked.value AS tsquery) AND r.kind = 'observation' AND (r.project_key = :project_key OR r.project = :project_key)),
  '[]') AS text) AS numbers
FROM jsonb_array_elements_text(CAST(:matches AS jsonb)) WITH ORDINALITY AS asked (value, number) ORDER BY asked.number;

-- name: words_scored
-- An approximate score: by the weight of each term, its place in title or body, and the length of the text.
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

-- name: words_heads
-- Titles of rows that pass a filter, and about how many tokens the rows have.
SELECT r.words_rowid AS number, r.session_id, w.title, LENGTH(w.body) / 6 AS length
FROM word_rows r JOIN words w ON w.rowid = r.words_rowid
WHERE r.words_rowid = ANY(ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(CAST(:numbers AS jsonb))))
  AND strpos(:kinds, r.kind) > 0 AND (:project = '' OR r.project = :project OR r.project_key = :project)
  AND (:session_id = 0 OR r.session_id = :session_id) AND (:outside = 0 OR substr(r.project_key, 1, 6) <> 'group:')
  AND r.at >= :since AND (:until = '' OR r.at <= :until || '~');

-- name: word_rows_of
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
  :embedder_id, :query, :kinds, :project, :agent, :session_id, :type, :concept, :file, :since, :until, :limit, :outside, :inside);

-- name: vectors_tune
-- With a filter, an index scan continues until it has enough rows. (pgvector before 0.8 has no such setting.)
SELECT set_config(s.name, given.value, true) AS value
FROM (VALUES ('hnsw.ef_search', '200'), ('hnsw.iterative_scan', 'relaxed_order'), ('hnsw.max_scan_tuples', '200000')) given (name, value)
JOIN pg_settings s ON s.name = given.name
WHERE '[1]'::halfvec IS NOT NULL; -- loads pgvector, which defines the settings

-- name: vectors_can
SELECT vectors_can() AS can;

-- name: vectors_make_index
SELECT vectors_make_index(:id, :dims) AS done;

-- name: vectors_drop_index
SELECT vectors_drop_index(:id) AS done;

-- name: vectors_dims
SELECT vector_dims(vector) AS dims FROM vectors WHERE embedder_id = :embedder_id LIMIT 1;

-- name: words_optimize
-- The index deletes words with their rows.
SELECT 1 AS done;

-- name: sequences_advance
-- Rows were added with their own ids. New ids continue after them.
SELECT
  setval(pg_get_serial_sequence('sdk_sessions', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM sdk_sessions), false),
  setval(pg_get_serial_sequence('session_moves', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM session_moves), false),
  setval(pg_get_serial_sequence('user_prompts', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM user_prompts), false),
  setval(pg_get_serial_sequence('events', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM events), false),
  setval(pg_get_serial_sequence('observations', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM observations), false),
  setval(pg_get_serial_sequence('session_summaries', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM session_summaries), false),
  setval(pg_get_serial_sequence('turns', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM turns), false),
  setval(pg_get_serial_sequence('session_history', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM session_history), false),
  setval(pg_get_serial_sequence('archives', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM archives), false),
  setval(pg_get_serial_sequence('contexts', 'id'), (SELECT COALESCE(MAX(id), 0) + 1 FROM contexts), false);

-- name: items_containing
-- Items that contain a text in any column, ignoring case. `in_json` is the text as JSON escapes it.
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

-- name: sessions_containing
SELECT 'session' AS kind, id FROM sdk_sessions s
WHERE (:project = '' OR project = :project OR project_key = :project)
  AND (strpos(lower(COALESCE(title, '') || E'\n' || COALESCE(first_user_prompt, '') || E'\n' || COALESCE(git_branch, '')), :needle) > 0
    OR EXISTS (SELECT 1 FROM session_titles t WHERE t.session_id = s.id AND strpos(lower(t.title), :needle) > 0)
    OR EXISTS (SELECT 1 FROM session_tags g WHERE g.session_id = s.id AND strpos(lower(g.tag), :needle) > 0));

-- name: forgotten_texts_among
SELECT mark, moment FROM forgotten_texts WHERE mark IN (SELECT json_array_elements_text(CAST(:marks AS json)));

-- name: events_containing
-- Events whose payload or tool name contains a text, ignoring case.
SELECT e.id, e.session_id, e.event_id, e.tool_use_id, e.kind, e.prompt_number FROM events e JOIN sdk_sessions s ON s.id = e.session_id
WHERE e.payload IS NOT NULL
  AND (strpos(lower(e.payload), :in_json) > 0 OR strpos(lower(COALESCE(e.tool_name, '')), :needle) > 0) AND (:project = '' OR s.project = :project OR s.project_key = :project) AND e.id > :after
ORDER BY e.id LIMIT :limit;

-- name: kept_containing
-- Entries of kept transcripts that contain a text, ignoring case.
SELECT e.id, k.session_id FROM transcript_entries e JOIN kept_transcripts k ON k.id = e.transcript_id
JOIN sdk_sessions s ON s.id = k.session_id
WHERE strpos(lower(e.payload), :in_json) > 0 AND (:project = '' OR s.project = :project OR s.project_key = :project);

-- name: table_sizes
-- Bytes on disk by table, with its indexes.
SELECT relname AS name, pg_total_relation_size(relid) AS bytes FROM pg_stat_user_tables
WHERE schemaname = current_schema() ORDER BY bytes DESC;

-- name: item_words
SELECT r.kind, r.item_id, r.session_id, w.title, w.body FROM jsonb_array_elements(CAST(:keys AS jsonb)) k
JOIN word_rows r ON r.kind = k ->> 0 AND r.item_id = (k ->> 1)::bigint JOIN words w ON w.rowid = r.words_rowid;
