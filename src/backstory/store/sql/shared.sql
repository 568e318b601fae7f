-- The queries that both engines share. If an engine needs its own form, its file has a query of the same name.

-- name: session_touch
-- Fills in what was empty and keeps the rest. It locks the row until the transaction ends.
UPDATE sdk_sessions SET
  project = CASE WHEN project = '' THEN :project ELSE project END,
  project_key = CASE WHEN project_key = '' THEN :project_key ELSE project_key END,
  cwd = CASE WHEN cwd = '' THEN :cwd ELSE cwd END,
  root = CASE WHEN root = '' AND cwd IN ('', :cwd) THEN :root ELSE root END,
  git_branch = COALESCE(:git_branch, git_branch),
  transcript_path = COALESCE(:transcript_path, transcript_path),
  created_at = CASE WHEN created_at > :at THEN :at ELSE created_at END,
  last_event_at = CASE WHEN last_event_at < :at THEN :at ELSE last_event_at END
WHERE agent = :agent AND content_session_id = :content_id
RETURNING *;

-- name: session_add
-- Returns no row if another writer has just added the session.
INSERT INTO sdk_sessions
  (agent, content_session_id, project, project_key, cwd, root, git_branch, transcript_path, start_source, created_at, last_event_at)
VALUES
  (:agent, :content_id, :project, :project_key, :cwd, :root, :git_branch, :transcript_path, :start_source, :at, :at)
ON CONFLICT (agent, content_session_id) DO NOTHING
RETURNING *;

-- name: session_by_id
SELECT * FROM sdk_sessions WHERE id = :id;

-- name: session_by_content_id
SELECT * FROM sdk_sessions WHERE agent = :agent AND content_session_id = :content_id;

-- name: sessions_like
-- By the agent's id or the beginning of one.
SELECT * FROM sdk_sessions WHERE content_session_id = :id OR content_session_id LIKE :prefix ESCAPE '\' ORDER BY id DESC LIMIT 3;

-- name: session_cleared_before
-- The session that a `/clear` has just ended in the same directory.
SELECT id FROM sdk_sessions
WHERE agent = :agent AND cwd = :cwd AND end_reason = 'clear' AND completed_at >= :since AND id <> :id
ORDER BY completed_at DESC, id DESC LIMIT 1;

-- name: sessions_in_same_folder
SELECT id, last_event_at FROM sdk_sessions
WHERE agent = :agent AND cwd = :cwd AND id <> :id AND prompt_counter > 0 ORDER BY last_event_at DESC LIMIT 50;

-- name: session_set_parent
UPDATE sdk_sessions SET parent_id = :parent_id WHERE id = :id AND parent_id IS NULL;

-- name: session_set_status
UPDATE sdk_sessions SET status = :status WHERE id = :id;

-- name: session_complete
UPDATE sdk_sessions SET completed_at = :at, end_reason = :reason WHERE id = :id;

-- name: session_reopen
UPDATE sdk_sessions SET completed_at = NULL, end_reason = NULL WHERE id = :id;

-- name: session_move_add
INSERT INTO session_moves (session_id, from_status, to_status, cause, at) VALUES (:id, :from_status, :status, :cause, :at);

-- name: session_active_after
SELECT 1 AS found FROM session_moves WHERE session_id = :id AND to_status = 'active' AND cause = 'prompt' AND at > :at LIMIT 1;

-- name: session_moved_after
-- Whether a session got its state after a moment. A move of the future was recorded before the clock was set back.
SELECT 1 AS found FROM session_moves
WHERE session_id = :id AND to_status = :status AND at > :at AND at <= :now LIMIT 1;

-- name: session_moves
SELECT from_status, to_status, cause, at FROM session_moves WHERE session_id = :id ORDER BY id;

-- name: agent_session_put
-- Changes what is given. NULL and an empty model leave the row as it is.
INSERT INTO agent_sessions
  (session_id, model, message_count, turn_count, input_tokens, output_tokens, cost_micros, last_stop_reason)
VALUES
  (:session_id, :model, COALESCE(:message_count, 0), COALESCE(:turn_count, 0), COALESCE(:input_tokens, 0),
   COALESCE(:output_tokens, 0), COALESCE(:cost_micros, 0), :last_stop_reason)
ON CONFLICT (session_id) DO UPDATE SET
  model = COALESCE(NULLIF(:model, ''), agent_sessions.model),
  message_count = COALESCE(:message_count, agent_sessions.message_count),
  turn_count = COALESCE(:turn_count, agent_sessions.turn_count),
  input_tokens = COALESCE(:input_tokens, agent_sessions.input_tokens),
  output_tokens = COALESCE(:output_tokens, agent_sessions.output_tokens),
  cost_micros = COALESCE(:cost_micros, agent_sessions.cost_micros),
  last_stop_reason = COALESCE(:last_stop_reason, agent_sessions.last_stop_reason);

-- name: agent_session
SELECT * FROM agent_sessions WHERE session_id = :session_id;

-- name: agent_session_forget
DELETE FROM agent_sessions WHERE session_id = :session_id;

-- name: context_add
INSERT INTO contexts (session_id, cause, at, tokens, observations) VALUES (:session_id, :cause, :at, :tokens, :observations)
RETURNING id;

-- name: context_observation_add
-- An observation that was forgotten in the meantime is left out.
INSERT INTO context_observations (context_id, observation_id)
SELECT :context_id, o.id FROM observations o WHERE o.id = :observation_id;

-- name: contexts_of_session
SELECT id, session_id, cause, at, tokens, observations FROM contexts WHERE session_id = :session_id ORDER BY id;

-- name: context_observations_of_session
-- Those of other groups are left out by their project.
SELECT t.context_id, o.id, o.type, o.mark, o.title, o.project_key FROM contexts c
JOIN context_observations t ON t.context_id = c.id JOIN observations o ON o.id = t.observation_id
JOIN sdk_sessions s ON s.id = o.session_id
WHERE c.session_id = :session_id AND o.hidden_at IS NULL AND s.hidden_at IS NULL ORDER BY c.id, o.id;

-- name: contexts_forget
DELETE FROM contexts WHERE session_id = :session_id;

-- name: usage_put
INSERT INTO session_usage
  (session_id, part, model, input_tokens, cached_tokens, cache_5m_tokens, cache_1h_tokens, output_tokens, cost_micros)
VALUES
  (:session_id, :part, :model, :input_tokens, :cached_tokens, :cache_5m_tokens, :cache_1h_tokens, :output_tokens, :cost_micros)
ON CONFLICT (session_id, part, model) DO UPDATE SET
  input_tokens = excluded.input_tokens, cached_tokens = excluded.cached_tokens, cache_5m_tokens = excluded.cache_5m_tokens,
  cache_1h_tokens = excluded.cache_1h_tokens, output_tokens = excluded.output_tokens, cost_micros = excluded.cost_micros
-- A transcript that was cut off has less.
WHERE excluded.output_tokens >= session_usage.output_tokens AND excluded.input_tokens >= session_usage.input_tokens
  AND excluded.cached_tokens >= session_usage.cached_tokens
  AND (excluded.model <> '' OR excluded.cost_micros >= session_usage.cost_micros);

-- name: usage_elsewhere
SELECT 1 AS found FROM session_usage WHERE part = :part AND session_id <> :session_id LIMIT 1;

-- name: usage_of_session
SELECT model, CAST(SUM(input_tokens) AS BIGINT) AS input_tokens, CAST(SUM(cached_tokens) AS BIGINT) AS cached_tokens,
  CAST(SUM(cache_5m_tokens) AS BIGINT) AS cache_5m_tokens, CAST(SUM(cache_1h_tokens) AS BIGINT) AS cache_1h_tokens,
  CAST(SUM(output_tokens) AS BIGINT) AS output_tokens,
  CASE WHEN COUNT(*) = COUNT(cost_micros) THEN CAST(SUM(cost_micros) AS BIGINT) END AS cost_micros
FROM session_usage WHERE session_id = :session_id AND part <> '' GROUP BY model;

-- name: usage_counted
SELECT cost_micros FROM session_usage WHERE session_id = :session_id AND part = '' AND model = '';

-- name: usage_forget
DELETE FROM session_usage WHERE session_id = :session_id;

-- name: sessions_idle
-- Active sessions without an event since a moment.
SELECT * FROM sdk_sessions WHERE status = 'active' AND last_event_at < :since AND id > :after ORDER BY id LIMIT :limit;

-- name: agent_sessions_paused
-- The same for paused sessions of the Python API.
SELECT s.* FROM agent_sessions a JOIN sdk_sessions s ON s.id = a.session_id
WHERE s.status = 'paused' AND s.last_event_at < :since AND s.id > :after ORDER BY s.id LIMIT :limit;

-- name: session_waiting_event
SELECT id FROM events WHERE session_id = :id AND status IN ('queued', 'leased') LIMIT 1;

-- name: session_last_step
-- The last thing that happened in a round. By time, because a transcript adds tool uses after the end of their round.
SELECT kind, occurred_at FROM events
WHERE session_id = :id AND prompt_number = :prompt_number AND kind IN ('prompt', 'tool', 'tool_failure', 'stop')
ORDER BY occurred_at DESC, id DESC LIMIT 1;

-- name: session_count_prompt
UPDATE sdk_sessions SET
  prompt_counter = CASE WHEN prompt_counter < :number THEN :number ELSE prompt_counter END,
  first_user_prompt = COALESCE(first_user_prompt, :prompt)
WHERE id = :id;

-- name: session_settle
UPDATE sdk_sessions SET settles_at = :settles_at WHERE id = :id;

-- name: session_settling
-- A session of a project that ended lately and is still being observed, or whose transcript is being read.
SELECT s.id FROM sdk_sessions s
WHERE s.project_key = :project_key AND s.status = 'completed' AND s.completed_at >= :since
  AND (s.settles_at > :now
    OR EXISTS (SELECT 1 FROM events e WHERE e.session_id = s.id AND e.status IN ('queued', 'leased')))
LIMIT 1;

-- name: session_reading
SELECT s.id FROM sdk_sessions s
WHERE s.id = :id AND (s.settles_at > :now
  OR EXISTS (SELECT 1 FROM events e WHERE e.session_id = s.id AND e.status IN ('queued', 'leased')));

-- name: session_set_memory_id
UPDATE sdk_sessions SET memory_session_id = :memory_id, memory_provider = :provider, force_init = 0 WHERE id = :id;

-- name: observations_follow_memory_id
UPDATE observations SET memory_session_id = :memory_id WHERE session_id = :id AND memory_session_id <> :memory_id;

-- name: summaries_follow_memory_id
UPDATE session_summaries SET memory_session_id = :memory_id WHERE session_id = :id AND memory_session_id <> :memory_id;

-- name: sessions_force_init
-- A worker that starts does not resume conversations of an earlier worker.
UPDATE sdk_sessions SET force_init = 1 WHERE memory_session_id IS NOT NULL AND force_init = 0;

-- name: session_force_init
UPDATE sdk_sessions SET force_init = 1 WHERE id = :id;

-- part: is_listed
-- A session that was opened and left without a prompt is none that anybody looks for.
(s.prompt_counter > 0 OR s.end_reason = 'imported'
  OR EXISTS (SELECT 1 FROM events e WHERE e.session_id = s.id AND e.kind <> 'session_start')
  OR EXISTS (SELECT 1 FROM observations o WHERE o.session_id = s.id))

-- name: sessions_list
-- Those that were used last come first. `before` is the last session of the previous page, or `LAST`.
SELECT s.*,
  (SELECT COUNT(*) FROM observations o WHERE o.session_id = s.id) AS observation_count
FROM sdk_sessions s
WHERE {is_listed}
  AND s.forgotten_at IS NULL
  AND ((:project = '' AND substr(s.project_key, 1, 6) <> 'group:') OR s.project = :project OR s.project_key = :project)
  AND (:agent = '' OR s.agent = :agent)
  AND (:status = '' OR s.status = :status)
  AND (:tag = '' OR EXISTS (SELECT 1 FROM session_tags t WHERE t.session_id = s.id AND t.tag = :tag))
  AND (:branch = '' OR s.git_branch = :branch)
  AND s.last_event_at >= :since AND (:until = '' OR substr(s.created_at, 1, length(:until)) <= :until)
  AND (:before = 4611686018427387904 OR (s.last_event_at, s.id) < (SELECT b.last_event_at, b.id FROM sdk_sessions b WHERE b.id = :before))
ORDER BY s.last_event_at DESC, s.id DESC LIMIT :limit;

-- name: session_title_put
INSERT INTO session_titles (session_id, source, title) VALUES (:id, :source, :title)
ON CONFLICT (session_id, source) DO UPDATE SET title = excluded.title;

-- name: session_title_remove
DELETE FROM session_titles WHERE session_id = :id AND source = :source;

-- name: session_title_show
-- 'user' comes before 'custom', and 'custom' before 'agent'.
UPDATE sdk_sessions SET title = (SELECT t.title FROM session_titles t WHERE t.session_id = :id ORDER BY t.source DESC LIMIT 1)
WHERE id = :id;

-- name: session_titles
SELECT source, title FROM session_titles WHERE session_id = :id ORDER BY source DESC;

-- name: session_unread_prompt
-- A prompt whose text is not stored, because it is private or was forgotten.
SELECT id FROM user_prompts WHERE session_id = :id AND prompt IS NULL LIMIT 1;

-- name: sessions_named
SELECT id, id AS session_id FROM sdk_sessions WHERE LOWER(title) = LOWER(:title) AND forgotten_at IS NULL ORDER BY last_event_at DESC, id DESC;

-- name: session_labels
SELECT t.session_id, t.title AS label FROM session_titles t WHERE t.source <> 'agent'
UNION ALL SELECT g.session_id, g.tag FROM session_tags g
ORDER BY session_id DESC LIMIT :limit;

-- name: session_tag_add
INSERT INTO session_tags (session_id, tag) VALUES (:id, :tag) ON CONFLICT (session_id, tag) DO NOTHING;

-- name: session_tag_remove
DELETE FROM session_tags WHERE session_id = :id AND tag = :tag;

-- name: session_tags_remove
DELETE FROM session_tags WHERE session_id = :id;

-- name: session_tags
SELECT session_id, tag FROM session_tags WHERE session_id {in_ids} ORDER BY session_id, tag;

-- name: session_children
SELECT id, start_source FROM sdk_sessions WHERE parent_id = :id AND forgotten_at IS NULL ORDER BY id;

-- name: sessions_by_ids
SELECT * FROM sdk_sessions WHERE id {in_ids} AND forgotten_at IS NULL;

-- part: session_place
SELECT id, project_key, created_at, last_event_at FROM (
  SELECT id, project_key, created_at, last_event_at, agent, git_branch, forgotten_at, hidden_at FROM sdk_sessions

-- part: is_session_place
  ORDER BY last_event_at DESC, id DESC LIMIT :among) latest
WHERE (:agent = '' OR agent = :agent) AND (:branch = '' OR git_branch = :branch)
  AND forgotten_at IS NULL AND hidden_at IS NULL AND (:is_outside_groups = 0 OR substr(project_key, 1, 6) <> 'group:')
ORDER BY last_event_at DESC, id DESC LIMIT :limit

-- name: session_places
-- Of the latest sessions of a project, by its key, and at work between two times: those of an agent and of a branch.
{session_place} WHERE project_key = :project AND last_event_at >= :since AND (:until = '' OR created_at <= :until)
{is_session_place};

-- name: session_places_by_name
-- The same by the name of a project, which several may have; or of all projects.
{session_place} WHERE (:project = '' OR project = :project) AND last_event_at >= :since AND (:until = '' OR created_at <= :until)
{is_session_place};

-- name: session_first_prompts
-- The beginnings of the first prompts of some sessions. A title is made from them.
SELECT session_id, prompt_number, SUBSTR(prompt, 1, 1000) AS prompt FROM user_prompts
WHERE session_id {in_ids} AND prompt IS NOT NULL AND prompt_number <= :prompts ORDER BY session_id, prompt_number;

-- name: session_main_observations
-- The most important observation of each of some sessions.
SELECT session_id, title FROM (
  SELECT session_id, title, ROW_NUMBER() OVER (PARTITION BY session_id ORDER BY importance DESC, id DESC) AS place
  FROM observations WHERE session_id {in_ids} AND superseded_by IS NULL AND hidden_at IS NULL) AS ranked
WHERE place = 1;

-- name: session_sizes
SELECT session_id, COUNT(*) AS chunks FROM chunks WHERE session_id {in_ids} GROUP BY session_id;

-- name: directories_of_project
-- Where a project was worked in, the latest first.
SELECT cwd, MAX(last_event_at) AS last_event_at FROM sdk_sessions
WHERE project_key = :project_key AND cwd <> '' GROUP BY cwd ORDER BY last_event_at DESC LIMIT :limit;

-- name: projects_list
SELECT project AS name, project_key AS key, COUNT(*) AS sessions, MAX(last_event_at) AS last_event_at,
  (SELECT COUNT(*) FROM observations o WHERE o.project_key = s.project_key) AS observations
FROM sdk_sessions s WHERE project <> '' AND {is_listed} AND forgotten_at IS NULL AND substr(project_key, 1, 6) <> 'group:'
GROUP BY project_key, project ORDER BY last_event_at DESC LIMIT :limit;

-- name: project_of_directory
-- The repository of the sessions that were last in a directory. Groups, and names given to an import, have no slash.
SELECT project, project_key FROM sdk_sessions
WHERE cwd = :cwd AND project_key <> :cwd AND project_key LIKE '%/%' AND forgotten_at IS NULL
ORDER BY last_event_at DESC LIMIT 1;

-- name: project_key_of
-- The key of the project that was worked in last under this name or key.
SELECT project, project_key FROM sdk_sessions WHERE project = :project OR project_key = :project
ORDER BY (project_key = :project) DESC, last_event_at DESC LIMIT 1;

-- name: prompt_add
INSERT INTO user_prompts (session_id, prompt_number, prompt, is_private, prompt_id, created_at)
VALUES (:session_id, :number, :prompt, :is_private, :prompt_id, :at)
ON CONFLICT (session_id, prompt_number) DO NOTHING RETURNING id;

-- name: prompt_by_number
SELECT * FROM user_prompts WHERE session_id = :session_id AND prompt_number = :number;

-- name: prompt_by_agents_id
SELECT * FROM user_prompts WHERE session_id = :session_id AND prompt_id = :prompt_id ORDER BY prompt_number DESC LIMIT 1;

-- name: prompt_at
SELECT * FROM user_prompts WHERE session_id = :session_id AND created_at <= :at
ORDER BY created_at DESC, prompt_number DESC LIMIT 1;

-- name: round_of_prompt_id
-- The round of a prompt id, by the events that carry the id. An event of the prompt itself has priority.
SELECT prompt_number FROM events WHERE session_id = :session_id AND prompt_id = :prompt_id
ORDER BY CASE kind WHEN 'prompt' THEN 0 ELSE 1 END, id LIMIT 1;

-- name: prompt_event_ids
SELECT event_id FROM events WHERE session_id = :session_id AND prompt_number = :prompt_number AND kind = 'prompt';

-- name: round_last_end
-- The kind of the last prompt or stop of a round up to a moment.
SELECT kind FROM events
WHERE session_id = :session_id AND prompt_number = :prompt_number AND kind IN ('prompt', 'stop') AND occurred_at <= :at
ORDER BY occurred_at DESC, id DESC LIMIT 1;

-- name: prompts_near
SELECT * FROM user_prompts WHERE session_id = :session_id AND created_at >= :since AND created_at <= :until;

-- name: prompts_of_session
SELECT prompt_number, prompt, is_private, created_at FROM user_prompts WHERE session_id = :session_id ORDER BY prompt_number;

-- name: prompts_list
SELECT p.id, p.session_id, p.prompt_number, p.prompt, p.is_private, p.prompt_id, p.created_at,
  s.project, s.project_key, s.agent, s.content_session_id
FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id
WHERE ((:project = '' AND (:session_id <> 0 OR substr(s.project_key, 1, 6) <> 'group:')) OR s.project = :project OR s.project_key = :project)
  AND (:session_id = 0 OR p.session_id = :session_id) AND p.id < :before
ORDER BY p.id DESC LIMIT :limit;

-- name: turn_next
SELECT COALESCE(MAX(number), -1) + 1 AS number FROM turns WHERE session_id = :session_id;

-- name: turn_add
INSERT INTO turns (session_id, number, prompt_number, role, speaker, text, at, mark)
VALUES (:session_id, :number, :prompt_number, :role, :speaker, :text, :at, :mark) RETURNING id;

-- name: turn_by_id
SELECT * FROM turns WHERE id = :id;

-- name: turn_by_number
SELECT * FROM turns WHERE session_id = :session_id AND number = :number;

-- name: turn_by_mark
SELECT * FROM turns WHERE mark = :mark AND session_id = :session_id;

-- name: turn_before
SELECT prompt_number FROM turns WHERE session_id = :session_id AND number < :number ORDER BY number DESC LIMIT 1;

-- name: turn_in_other_session
-- The same message in another session of the agent. A fork repeats the original conversation.
SELECT t.id FROM turns t JOIN sdk_sessions s ON s.id = t.session_id
WHERE t.mark = :mark AND s.agent = :agent AND s.content_session_id <> :content_id LIMIT 1;

-- name: turn_put_text
UPDATE turns SET text = :text WHERE id = :id;

-- name: turn_put_mark
UPDATE turns SET mark = :mark, at = :at WHERE id = :id;

-- name: turns_up_to_round
-- Turns are numbered as they arrive. A reply may arrive after the next prompt.
SELECT * FROM turns WHERE session_id = :session_id AND prompt_number <= :prompt_number
ORDER BY prompt_number DESC, at DESC, number DESC LIMIT :limit;

-- name: turns_of_round
SELECT * FROM turns WHERE session_id = :session_id AND prompt_number = :prompt_number AND role = :role ORDER BY number;

-- name: turns_follow_prompt
-- Moves the replies of a prompt that was reported late to its round.
UPDATE turns SET prompt_number = :number
WHERE session_id = :session_id AND role = 'assistant' AND at >= :at AND at <
  COALESCE((SELECT MIN(p.created_at) FROM user_prompts p WHERE p.session_id = :session_id AND p.created_at > :at), '~');

-- name: turn_put_round
UPDATE turns SET prompt_number = :prompt_number WHERE id = :id;

-- name: turn_remove
DELETE FROM turns WHERE id = :id;

-- name: turns_of_session
SELECT * FROM turns WHERE session_id = :session_id AND number > :after ORDER BY number LIMIT :limit;

-- name: stop_of_session
SELECT * FROM events WHERE session_id = :session_id AND kind = 'stop' ORDER BY id DESC LIMIT 1;

-- name: stops_without_reply
-- An end that was read from a transcript has the time of its reply, which may not be known to belong to its round yet.
SELECT e.* FROM user_prompts p JOIN events e ON e.session_id = p.session_id AND e.prompt_number = p.prompt_number AND e.kind = 'stop'
WHERE p.session_id = :session_id AND NOT EXISTS
  (SELECT 1 FROM turns t WHERE t.session_id = p.session_id AND t.role = 'assistant'
    AND (t.prompt_number = p.prompt_number OR t.at = e.occurred_at))
ORDER BY e.id;

-- name: chunks_redo_from
-- The first turn of the last chunk. A long turn is in several chunks.
SELECT MIN(first_turn) AS number FROM chunks WHERE session_id = :session_id AND last_turn >=
  (SELECT first_turn FROM chunks WHERE session_id = :session_id ORDER BY first_turn DESC LIMIT 1);

-- name: chunks_from
SELECT * FROM chunks WHERE session_id = :session_id AND first_turn >= :number ORDER BY id;

-- name: chunk_remove
DELETE FROM chunks WHERE id = :id;

-- name: chunk_add
INSERT INTO chunks (session_id, first_turn, last_turn, text, at)
VALUES (:session_id, :first_turn, :last_turn, :text, :at) RETURNING id;

-- name: tools_since
SELECT * FROM events
WHERE session_id = :session_id AND kind IN ('tool', 'tool_failure') AND payload IS NOT NULL AND (occurred_at, id) > (:at, :after)
ORDER BY occurred_at, id LIMIT :limit;

-- name: tools_of_rounds
SELECT * FROM events
WHERE session_id = :session_id AND prompt_number >= :first AND prompt_number <= :last
  AND kind IN ('tool', 'tool_failure') AND payload IS NOT NULL
ORDER BY occurred_at, id LIMIT :limit;

-- name: tools_last
SELECT * FROM events WHERE session_id = :session_id AND kind IN ('tool', 'tool_failure') AND payload IS NOT NULL
ORDER BY occurred_at DESC, id DESC LIMIT :limit;

-- name: compactions_of_session
-- A compaction begins with `pre_compact`, and ends with the start of a session after it, `post_compact`, or both.
SELECT kind, occurred_at, payload FROM events
WHERE session_id = :session_id AND kind IN ('pre_compact', 'session_start', 'post_compact')
ORDER BY occurred_at, id;

-- name: turns_of_rounds
SELECT * FROM turns WHERE session_id = :session_id AND prompt_number >= :first AND prompt_number <= :last ORDER BY at, number;

-- name: tool_by_id
SELECT * FROM events WHERE id = :id AND kind IN ('tool', 'tool_failure') AND payload IS NOT NULL;

-- name: session_counts
SELECT
  (SELECT COUNT(*) FROM events e WHERE e.session_id = :session_id AND e.kind IN ('tool', 'tool_failure')) AS tools,
  (SELECT COUNT(*) FROM turns t WHERE t.session_id = :session_id) AS turns,
  (SELECT CAST(COALESCE(SUM(LENGTH(t.text)), 0) AS BIGINT) FROM turns t WHERE t.session_id = :session_id) AS characters;

-- name: turns_between
SELECT * FROM turns WHERE session_id = :session_id AND at > :since AND at <= :until ORDER BY at, number;

-- part: before
WHERE id < :before ORDER BY id DESC LIMIT :limit

-- name: index_observations
-- The rows to index: those of groups, too.
SELECT * FROM observations {before};

-- name: index_summaries
SELECT * FROM session_summaries {before};

-- name: index_prompts
SELECT * FROM user_prompts {before};

-- name: index_turns
SELECT * FROM turns {before};

-- name: index_sessions
SELECT * FROM sdk_sessions {before};

-- name: stops_of_session
SELECT * FROM events WHERE session_id = :session_id AND kind = 'stop' AND payload IS NOT NULL ORDER BY id;

-- name: event_add
INSERT INTO events
  (event_id, session_id, prompt_number, prompt_id, kind, tool_name, tool_use_id, payload, occurred_at, created_at, status, reason)
VALUES
  (:event_id, :session_id, :prompt_number, :prompt_id, :kind, :tool_name, :tool_use_id, :payload, :occurred_at, :at, :status, :reason)
ON CONFLICT DO NOTHING RETURNING id;

-- name: events_with_output
SELECT id, payload FROM events
WHERE id > :after AND kind IN ('tool', 'tool_failure') AND status = 'done' AND payload IS NOT NULL AND created_at < :before
ORDER BY id LIMIT :limit;

-- name: event_put_payload
UPDATE events SET payload = :payload WHERE id = :id;

-- name: observations_drop_output
UPDATE observations SET tool_response_text = NULL
WHERE tool_response_text IS NOT NULL AND id IN (SELECT observation_id FROM observation_events WHERE event_id = :id);

-- name: observations_forget_source
-- Removes the copies of an event that its observations have.
UPDATE observations SET tool_name = NULL, tool_input_json = NULL, tool_response_text = NULL
WHERE tool_name IS NOT NULL AND id IN (SELECT observation_id FROM observation_events WHERE event_id = :id);

-- name: observations_before
-- Observations as an earlier version stored them, and how many events they came from that still have their payload.
SELECT o.*, (SELECT COUNT(*) FROM observation_events oe JOIN events e ON e.id = oe.event_id
  WHERE oe.observation_id = o.id AND e.payload IS NOT NULL) AS sources
FROM observations o WHERE o.id < :before ORDER BY o.id DESC LIMIT :limit;

-- name: observation_make_smaller
UPDATE observations SET observed_json = :observed_json, tool_input_json = :tool_input_json, tool_response_text = :tool_response_text
WHERE id = :id;

-- name: event_by_event_id
SELECT * FROM events WHERE session_id = :session_id AND event_id = :event_id;

-- name: event_by_tool_use
SELECT * FROM events WHERE session_id = :session_id AND tool_use_id = :tool_use_id;

-- name: event_in_other_session
-- The same event in another session of the agent. A fork repeats the original conversation.
SELECT e.session_id FROM events e JOIN sdk_sessions s ON s.id = e.session_id
WHERE (e.event_id = :event_id OR e.tool_use_id = :tool_use_id) AND s.agent = :agent AND s.content_session_id <> :content_id
LIMIT 1;

-- name: event_near
-- Those of the transcript are known by their ids.
SELECT id, kind FROM events WHERE session_id = :session_id AND kind = :kind AND occurred_at >= :since AND occurred_at <= :until
  AND event_id NOT LIKE 'transcript-%' LIMIT 1;

-- name: stops_of_round
-- The ends of a round as hooks and the transcript reported them. Events without content come last.
SELECT * FROM events WHERE session_id = :session_id AND prompt_number = :prompt_number AND kind = 'stop'
ORDER BY CASE WHEN reason = 'untold' THEN 1 ELSE 0 END, id;

-- name: event_after
-- Whether something happened in a round after an event.
SELECT 1 FROM events WHERE session_id = :session_id AND prompt_number = :prompt_number AND id > :id AND kind <> 'stop' LIMIT 1;

-- name: event_twin
-- The same event a moment ago, if the session has not ended since.
SELECT e.id, e.event_id FROM events e
WHERE e.session_id = :session_id AND e.prompt_number = :prompt_number AND e.kind = :kind AND e.payload = :payload
  AND e.occurred_at BETWEEN :since AND :until
  AND NOT EXISTS (
    SELECT 1 FROM events l WHERE l.session_id = e.session_id AND l.prompt_number = e.prompt_number AND l.id > e.id
      AND l.kind = 'session_end')
ORDER BY e.id LIMIT 1;

-- name: events_of_round
SELECT * FROM events
WHERE session_id = :session_id AND prompt_number = :prompt_number AND status = 'done' AND payload IS NOT NULL
  AND kind IN ('tool', 'tool_failure', 'stop', 'subagent_stop') AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: tools_used
SELECT DISTINCT prompt_number, tool_name FROM events
WHERE session_id = :session_id AND prompt_number <= :prompt_number AND kind = 'tool' AND tool_name IS NOT NULL
ORDER BY prompt_number, tool_name;

-- name: events_after_prompt
-- Events between a prompt and the next one by time that are in another round. Events with a prompt id are not moved.
SELECT * FROM events
WHERE session_id = :session_id AND prompt_number <> :number AND prompt_id IS NULL AND kind <> 'prompt' AND occurred_at >= :at
  AND occurred_at < COALESCE((SELECT MIN(p.created_at) FROM user_prompts p WHERE p.session_id = :session_id AND p.created_at > :at), '~')
ORDER BY id;

-- name: events_with_prompt_id
SELECT * FROM events WHERE session_id = :session_id AND prompt_id = :prompt_id AND kind <> 'prompt' AND prompt_number <> :number ORDER BY id;

-- name: events_of_number
SELECT * FROM events
WHERE session_id = :session_id AND prompt_number = :prompt_number AND kind IN ('tool', 'tool_failure', 'stop', 'subagent_stop')
ORDER BY id;

-- name: event_put_round
UPDATE events SET prompt_number = :prompt_number, prompt_id = COALESCE(prompt_id, :prompt_id) WHERE id = :id;

-- name: event_make_private
-- Its ids stay, so that it is recognised. Its content is removed.
UPDATE events SET status = 'tombstone', payload = NULL, reason = 'private', lease_until = NULL, lease_owner = NULL, last_error = NULL
WHERE id = :id AND NOT (status = 'tombstone' AND reason <> 'untold');

-- name: event_hold_back
-- The event turned out not to be private. Its content is read from the transcript again.
UPDATE events SET reason = 'untold' WHERE id = :id AND reason = 'private' AND status = 'tombstone';

-- name: event_fill
-- Adds the content that was held back until the prompt was known.
UPDATE events SET payload = :payload, status = 'queued', reason = NULL WHERE id = :id AND reason = 'untold';

-- name: event_requeue
UPDATE events SET status = 'queued', attempts = 0, available_at = 0, observed_at = NULL, instead_of = NULL
WHERE id = :id AND status = 'done' AND payload IS NOT NULL AND kind IN ('tool', 'tool_failure', 'stop', 'subagent_stop');

-- name: lease_release
-- Releases a whole claim. Its owner notices when it finishes.
UPDATE events SET status = 'queued', lease_until = NULL, lease_owner = NULL WHERE session_id = :session_id AND lease_owner = :owner;

-- name: observations_of_event
SELECT o.* FROM observations o JOIN observation_events oe ON oe.observation_id = o.id WHERE oe.event_id = :event_id;

-- part: queue_heads
-- The first open event of each session. It steps from session to session along the index, so it costs as much as there
-- are sessions that wait, however many events they have.
WITH RECURSIVE open_sessions (id) AS (
  SELECT MIN(session_id) FROM events WHERE status IN ('queued', 'leased')
  UNION ALL
  SELECT (SELECT MIN(n.session_id) FROM events n WHERE n.status IN ('queued', 'leased') AND n.session_id > o.id)
  FROM open_sessions o WHERE o.id IS NOT NULL
), heads (id) AS (
  SELECT (SELECT MIN(f.id) FROM events f WHERE f.status IN ('queued', 'leased') AND f.session_id = o.id)
  FROM open_sessions o WHERE o.id IS NOT NULL
)

-- name: queue_head
-- The oldest round that may be observed now. Its session is not being observed, and its first event is not waiting for
-- another try. It has ended, a newer prompt has come, or it has been quiet or is old enough.
{queue_heads}
SELECT e.id, e.session_id, e.prompt_number, e.attempts, e.last_error FROM events e JOIN sdk_sessions s ON s.id = e.session_id
WHERE e.id IN (SELECT id FROM heads)
  -- PostgreSQL checks this condition again after it has locked the row, so it repeats the status.
  AND (e.status = 'queued' OR (e.status = 'leased' AND e.lease_until <= :now))
  AND e.available_at <= :now
  AND (s.settles_at <= :now OR e.prompt_number < s.prompt_counter OR e.attempts > 0 OR e.created_at <= :long_ago)
  AND NOT EXISTS (SELECT 1 FROM events l WHERE l.session_id = e.session_id AND l.status = 'leased' AND l.lease_until > :now)
-- Recent events come before old ones that were imported.
ORDER BY CASE WHEN e.occurred_at > :recent THEN 0 ELSE 1 END, e.id LIMIT 1
{queue_lock}
;

-- name: queue_next_due
-- When the next round will be ready, if nothing else happens.
{queue_heads}
SELECT MIN(CASE
    WHEN e.status = 'leased' THEN e.lease_until
    WHEN e.available_at > s.settles_at OR e.attempts > 0 OR e.prompt_number < s.prompt_counter THEN e.available_at
    ELSE s.settles_at END) AS due
FROM events e JOIN sdk_sessions s ON s.id = e.session_id
WHERE e.id IN (SELECT id FROM heads);

-- name: queue_round
-- The open events of a round, oldest first.
SELECT * FROM events
WHERE session_id = :session_id AND prompt_number = :prompt_number AND status IN ('queued', 'leased')
  AND id >= :head AND (:alone = 0 OR id = :head)
ORDER BY id LIMIT :limit;

-- name: round_lease
-- Leases the events of `queue_round` in one statement, because the server may be remote.
UPDATE events SET status = 'leased', lease_until = :lease_until, lease_owner = :owner, attempts = attempts + 1
WHERE session_id = :session_id AND prompt_number = :prompt_number AND status IN ('queued', 'leased')
  AND id BETWEEN :first AND :last;

-- name: round_finish
UPDATE events SET status = 'done', lease_until = NULL, lease_owner = NULL, last_error = NULL, observed_at = :at, instead_of = :instead_of
WHERE session_id = :session_id AND status = 'leased' AND lease_owner = :owner;

-- name: round_postpone
UPDATE events SET status = 'queued', lease_until = NULL, lease_owner = NULL, attempts = attempts - 1, available_at = :available_at
WHERE session_id = :session_id AND status = 'leased' AND lease_owner = :owner;

-- name: event_fail
UPDATE events SET status = :status, lease_until = NULL, lease_owner = NULL, last_error = :error, available_at = :available_at
WHERE id = :id AND status = 'leased' AND lease_owner = :owner;

-- name: event_set_aside
UPDATE events SET status = 'dead', lease_until = NULL, lease_owner = NULL, last_error = :error WHERE id = :id;

-- name: queue_release
-- Releases every lease: there is one worker, and it has just started.
UPDATE events SET status = 'queued', lease_until = NULL, lease_owner = NULL WHERE status = 'leased';

-- name: queue_release_all
UPDATE events SET status = 'queued', lease_until = NULL, lease_owner = NULL WHERE status = 'leased';

-- name: queue_counts
SELECT status, COUNT(*) AS count FROM events WHERE status IN ('queued', 'leased') GROUP BY status
UNION ALL SELECT 'dead', COUNT(*) FROM events WHERE status = 'dead';

-- name: queue_list
SELECT e.id, e.event_id, e.session_id, e.prompt_number, e.kind, e.tool_name, e.status, e.attempts, e.last_error,
  e.created_at, e.available_at, s.project, s.content_session_id, s.agent
FROM events e JOIN sdk_sessions s ON s.id = e.session_id
WHERE ((:status = '' AND e.status IN ('queued', 'leased', 'dead')) OR e.status = :status) AND e.id > :after
ORDER BY e.id LIMIT :limit;

-- name: queue_retry
UPDATE events SET status = 'queued', attempts = 0, available_at = 0, last_error = NULL
WHERE (id = :id OR :id = 0) AND status = 'dead';

-- name: queue_drop
UPDATE events SET status = 'dropped', payload = NULL, lease_until = NULL, lease_owner = NULL
WHERE (id = :id OR :id = 0) AND (status = 'dead' OR (status = 'queued' AND :id <> 0));

-- name: observation_add
INSERT INTO observations
  (session_id, prompt_number, memory_session_id, project, project_key, type, mark, title, subtitle, narrative, facts, fact_marks, concepts,
   files_read, files_modified, tool_name, tool_input_json, tool_response_text, observed_json, provider, instead_of, importance, created_at)
VALUES
  (:session_id, :prompt_number, :memory_id, :project, :project_key, :type, :mark, :title, :subtitle, :narrative, :facts, :fact_marks, :concepts,
   :files_read, :files_modified, :tool_name, :tool_input_json, :tool_response_text, '', :provider, :instead_of, :importance, :at)
RETURNING id;

-- name: observation_continue
-- An observation of an earlier piece of its round tells the round so far.
UPDATE observations SET memory_session_id = :memory_id, type = :type, mark = :mark, title = :title, subtitle = :subtitle,
  narrative = :narrative, facts = :facts, fact_marks = :fact_marks, concepts = :concepts, files_read = :files_read,
  files_modified = :files_modified, tool_name = :tool_name, tool_input_json = :tool_input_json,
  tool_response_text = :tool_response_text, observed_json = '', provider = :provider, instead_of = :instead_of,
  importance = :importance, created_at = :at
WHERE id = :id;

-- name: observation_from_event
INSERT INTO observation_events (observation_id, event_id) VALUES (:observation_id, :event_id) ON CONFLICT DO NOTHING;

-- name: observation_event_ids
SELECT e.event_id FROM observation_events oe JOIN events e ON e.id = oe.event_id WHERE oe.observation_id = :id ORDER BY e.id;

-- name: observation_by_id
SELECT o.*, s.agent, s.content_session_id, s.git_branch FROM observations o JOIN sdk_sessions s ON s.id = o.session_id WHERE o.id = :id;

-- name: observations_list
SELECT o.*, s.agent, s.content_session_id FROM observations o JOIN sdk_sessions s ON s.id = o.session_id
WHERE ((:project = '' AND (:session_id <> 0 OR substr(o.project_key, 1, 6) <> 'group:')) OR o.project = :project OR o.project_key = :project)
  AND (:type = '' OR o.type = :type)
  AND (:session_id = 0 OR o.session_id = :session_id)
  AND o.id < :before
ORDER BY o.id DESC LIMIT :limit;

-- name: observations_recent
SELECT o.id, o.session_id, o.project, o.type, o.mark, o.title, o.subtitle, o.narrative, o.facts, o.fact_marks, o.concepts, o.files_read, o.files_modified,
  o.created_at, o.pinned_at, o.superseded_by, o.importance, o.times_learned, s.agent, s.git_branch
FROM observations o JOIN sdk_sessions s ON s.id = o.session_id
WHERE o.project_key = :project_key AND o.superseded_by IS NULL AND o.hidden_at IS NULL AND s.hidden_at IS NULL
ORDER BY o.created_at DESC, o.id DESC LIMIT :limit;

-- name: observations_important
SELECT o.id, o.session_id, o.project, o.type, o.mark, o.title, o.subtitle, o.narrative, o.facts, o.fact_marks, o.concepts, o.files_read, o.files_modified,
  o.created_at, o.pinned_at, o.superseded_by, o.importance, o.times_learned, s.agent, s.git_branch
FROM observations o JOIN sdk_sessions s ON s.id = o.session_id
WHERE o.project_key = :project_key AND o.superseded_by IS NULL AND o.hidden_at IS NULL AND s.hidden_at IS NULL
ORDER BY o.importance DESC, o.id DESC LIMIT :limit;

-- name: observations_pinned
SELECT o.id, o.session_id, o.project, o.type, o.mark, o.title, o.subtitle, o.narrative, o.facts, o.fact_marks, o.concepts, o.files_read, o.files_modified,
  o.created_at, o.pinned_at, o.superseded_by, o.importance, o.times_learned, s.agent, s.git_branch
FROM observations o JOIN sdk_sessions s ON s.id = o.session_id
WHERE o.project_key = :project_key AND o.pinned_at IS NOT NULL AND o.superseded_by IS NULL
  AND o.hidden_at IS NULL AND s.hidden_at IS NULL
ORDER BY o.pinned_at DESC, o.id DESC LIMIT :limit;

-- name: observations_noted
-- What the rules noted of a session and nobody pinned.
SELECT id, prompt_number, mark, title, facts, fact_marks, importance FROM observations
WHERE session_id = :session_id AND superseded_by IS NULL AND pinned_at IS NULL AND edited_at IS NULL AND provider = 'offline'
ORDER BY id;

-- name: sessions_with_notes
SELECT s.* FROM sdk_sessions s
WHERE s.project_key = :project_key AND (:branch = '' OR s.git_branch = :branch) AND s.forgotten_at IS NULL AND s.hidden_at IS NULL
  AND (EXISTS (SELECT 1 FROM observations o WHERE o.session_id = s.id AND o.superseded_by IS NULL AND o.hidden_at IS NULL AND o.provider <> 'manual')
    OR EXISTS (SELECT 1 FROM session_summaries m WHERE m.session_id = s.id))
ORDER BY s.last_event_at DESC, s.id DESC LIMIT :limit;

-- name: sessions_by_age
SELECT id FROM sdk_sessions WHERE project_key = :project_key AND forgotten_at IS NULL ORDER BY last_event_at DESC, id DESC LIMIT :limit;

-- name: session_stopped_at
SELECT MAX(at) AS at FROM (
  SELECT MAX(at) AS at FROM turns WHERE session_id = :session_id
  UNION ALL SELECT MAX(created_at) FROM user_prompts WHERE session_id = :session_id) times;

-- name: observations_standing
SELECT o.*, s.agent, s.content_session_id FROM observations o JOIN sdk_sessions s ON s.id = o.session_id
WHERE o.session_id = :session_id AND o.superseded_by IS NULL ORDER BY o.created_at, o.id;

-- name: summary_put
INSERT INTO session_summaries
  (session_id, prompt_number, memory_session_id, project, project_key, source, request, investigated, learned, completed,
   next_steps, notes, provider, created_at)
VALUES
  (:session_id, :prompt_number, :memory_id, :project, :project_key, :source, :request, :investigated, :learned, :completed,
   :next_steps, :notes, :provider, :at)
ON CONFLICT (session_id, prompt_number, source) DO UPDATE SET
  memory_session_id = excluded.memory_session_id, request = excluded.request, investigated = excluded.investigated,
  learned = excluded.learned, completed = excluded.completed, next_steps = excluded.next_steps, notes = excluded.notes,
  provider = excluded.provider, instead_of = NULL, created_at = excluded.created_at
RETURNING id;

-- name: summary_notes_before
SELECT notes FROM session_summaries
WHERE session_id = :session_id AND prompt_number < :prompt_number AND provider = 'offline' AND source = 'stop'
ORDER BY prompt_number DESC LIMIT 1;

-- name: summary_set_instead_of
UPDATE session_summaries SET instead_of = :instead_of WHERE id = :id;

-- name: summary_by_id
SELECT m.*, s.agent, s.content_session_id, s.git_branch, s.hidden_at
FROM session_summaries m JOIN sdk_sessions s ON s.id = m.session_id WHERE m.id = :id;

-- name: summaries_list
SELECT m.*, s.agent, s.content_session_id FROM session_summaries m JOIN sdk_sessions s ON s.id = m.session_id
WHERE ((:project = '' AND (:session_id <> 0 OR substr(m.project_key, 1, 6) <> 'group:')) OR m.project = :project OR m.project_key = :project)
  AND (:session_id = 0 OR m.session_id = :session_id) AND m.id < :before
ORDER BY m.id DESC LIMIT :limit;

-- name: summaries_of_session
SELECT m.*, s.agent FROM session_summaries m JOIN sdk_sessions s ON s.id = m.session_id
WHERE m.session_id = :session_id AND m.source = 'stop' ORDER BY m.created_at DESC, m.id DESC LIMIT :limit;

-- name: transcript_read
SELECT * FROM transcripts WHERE reader = :reader AND path = :path;

-- name: transcript_put
INSERT INTO transcripts (reader, path, inode, size, changed_ns, mark_offset, mark_prompt, read_at)
VALUES (:reader, :path, :inode, :size, :changed_ns, :mark_offset, :mark_prompt, :at)
ON CONFLICT (reader, path) DO UPDATE SET
  inode = excluded.inode, size = excluded.size, changed_ns = excluded.changed_ns,
  mark_offset = excluded.mark_offset, mark_prompt = excluded.mark_prompt, read_at = excluded.read_at;

-- name: kept_hold
-- Locks a kept transcript until the transaction ends, because the order of its entries is that of their ids.
UPDATE kept_transcripts SET changed_at = :at WHERE session_id = :session_id AND project_key = :project_key AND subpath = :subpath
RETURNING *;

-- name: kept_add
-- Returns no row if another writer has just added it.
INSERT INTO kept_transcripts (session_id, project_key, subpath, source, changed_at)
VALUES (:session_id, :project_key, :subpath, :source, :at)
ON CONFLICT (session_id, project_key, subpath) DO NOTHING RETURNING *;

-- name: kept_find
SELECT * FROM kept_transcripts WHERE session_id = :session_id AND project_key = :project_key AND subpath = :subpath;

-- name: kept_of_session
-- A session can be kept under several keys: its repository may have got another address. The last one is used.
SELECT * FROM kept_transcripts WHERE session_id = :session_id ORDER BY subpath, changed_at DESC, id DESC;

-- name: kept_list
SELECT k.id, s.agent, s.content_session_id, k.project_key, k.subpath, k.source, k.changed_at
FROM kept_transcripts k JOIN sdk_sessions s ON s.id = k.session_id
WHERE k.id > :after AND (:project_key = '' OR k.project_key = :project_key) AND (:agent = '' OR s.agent = :agent)
  AND (:content_id = '' OR s.content_session_id = :content_id) AND (:is_whole = 0 OR k.subpath = '')
ORDER BY k.id LIMIT :limit;

-- name: kept_set_private
UPDATE kept_transcripts SET is_private = :is_private WHERE id = :id;

-- name: kept_remove
DELETE FROM kept_transcripts
WHERE session_id = :session_id AND project_key = :project_key AND (:subpath = '' OR subpath = :subpath);

-- name: kept_remove_of_session
DELETE FROM kept_transcripts WHERE session_id = :session_id;

-- name: kept_with_same_entries
-- Sessions whose kept transcript repeats an entry, or a turn, of this session: its forks, and what it was forked from.
-- Entries without an id ('line …') say the same in many sessions.
SELECT DISTINCT k.session_id FROM kept_transcripts k JOIN transcript_entries e ON e.transcript_id = k.id
WHERE k.session_id <> :session_id AND substr(e.mark, 1, 5) <> 'line ' AND e.mark IN (
  SELECT o.mark FROM transcript_entries o JOIN kept_transcripts own ON own.id = o.transcript_id WHERE own.session_id = :session_id
  UNION SELECT t.mark FROM turns t WHERE t.session_id = :session_id AND t.mark IS NOT NULL);

-- name: entry_add
INSERT INTO transcript_entries (transcript_id, mark, payload) VALUES (:transcript_id, :mark, :payload)
ON CONFLICT (mark, transcript_id) DO NOTHING;

-- name: entries_like
-- How many entries without an id say the same.
SELECT COUNT(*) AS count FROM transcript_entries WHERE transcript_id = :transcript_id AND mark > :first AND mark < :last;

-- name: entry_put_payload
UPDATE transcript_entries SET payload = :payload WHERE id = :id;

-- name: entries_page
SELECT id, payload FROM transcript_entries WHERE transcript_id = :transcript_id AND id > :after ORDER BY id LIMIT :limit;

-- name: forgotten_texts_any
SELECT 1 AS found FROM forgotten_texts LIMIT 1;

-- name: forgotten_cut
-- Whether sentences were cut from the texts of a session. Earlier versions marked only the rounds of replies.
SELECT 1 AS found FROM forgotten WHERE session_id = :session_id AND kind IN ('cut', 'round') LIMIT 1;

-- name: forgotten_texts_since
SELECT 1 AS found FROM forgotten_texts WHERE forgotten_at > :at LIMIT 1;

-- name: private_prompt_ids
SELECT DISTINCT prompt_id FROM user_prompts WHERE session_id = :session_id AND is_private = 1 AND prompt_id IS NOT NULL;

-- name: sessions_open_with_transcript
SELECT transcript_path FROM sdk_sessions
WHERE agent = :agent AND transcript_path IS NOT NULL AND status IN ('created', 'active', 'paused') ORDER BY id DESC;

-- name: word_row
SELECT words_rowid FROM word_rows WHERE kind = :kind AND item_id = :item_id;

-- name: word_row_put
-- An item that is indexed again keeps its row id.
INSERT INTO word_rows (kind, item_id, session_id, at, project, project_key)
VALUES (:kind, :item_id, :session_id, :at, :project, :project_key)
ON CONFLICT (kind, item_id) DO UPDATE SET
  session_id = excluded.session_id, at = excluded.at, project = excluded.project, project_key = excluded.project_key
RETURNING words_rowid;

-- name: observations_counted
-- The number of observations of a project, up to a limit.
SELECT COUNT(*) AS count FROM (SELECT 1 FROM observations WHERE project_key = :project_key LIMIT :limit) AS counted;

-- name: words_last
SELECT MAX(words_rowid) AS last FROM word_rows;

-- name: word_row_remove
DELETE FROM word_rows WHERE kind = :kind AND item_id = :item_id;

-- name: vector_due
INSERT INTO vectors_due (kind, item_id, stamp) VALUES (:kind, :item_id, :stamp)
ON CONFLICT (kind, item_id) DO UPDATE SET stamp = excluded.stamp;

-- name: vector_not_due
DELETE FROM vectors_due WHERE kind = :kind AND item_id = :item_id;

-- name: vector_done
DELETE FROM vectors_due WHERE kind = :kind AND item_id = :item_id AND stamp = :stamp;

-- name: vectors_due_of
SELECT 1 AS yes FROM vectors_due WHERE kind = :kind LIMIT 1;

-- name: vectors_due_count
SELECT COUNT(*) AS count FROM vectors_due;

-- name: vectors_mark_due
-- Marks items as due, a range of ids at a time, so that other writers hardly wait.
INSERT INTO vectors_due (kind, item_id, stamp)
SELECT kind, item_id, :stamp FROM (
  SELECT 'observation' AS kind, id AS item_id FROM observations
  UNION ALL SELECT 'summary', id FROM session_summaries
  UNION ALL SELECT 'prompt', id FROM user_prompts WHERE prompt IS NOT NULL
  UNION ALL SELECT 'turn', id FROM turns WHERE text IS NOT NULL
  UNION ALL SELECT 'chunk', id FROM chunks
) AS every WHERE item_id > :after AND item_id <= :until
ON CONFLICT (kind, item_id) DO UPDATE SET stamp = excluded.stamp;

-- name: vectors_last_item
SELECT MAX(id) AS id FROM (
  SELECT MAX(id) AS id FROM observations UNION ALL SELECT MAX(id) FROM session_summaries
  UNION ALL SELECT MAX(id) FROM user_prompts UNION ALL SELECT MAX(id) FROM turns UNION ALL SELECT MAX(id) FROM chunks
) AS every;

-- name: embedder_filled
UPDATE embedders SET state = 'making' WHERE id = :id AND state = 'filling';

-- name: due_observations
-- The text to embed. It is NULL if the item was deleted or is hidden.
SELECT d.item_id, d.stamp, o.session_id, o.created_at AS at, o.title, o.subtitle, o.narrative, o.facts
FROM (SELECT item_id, stamp FROM vectors_due WHERE kind = 'observation' ORDER BY item_id DESC LIMIT :limit) d
LEFT JOIN observations o ON o.id = d.item_id AND o.hidden_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM sdk_sessions s WHERE s.id = o.session_id AND s.hidden_at IS NOT NULL);

-- name: due_summaries
SELECT d.item_id, d.stamp, m.session_id, m.created_at AS at, m.request, m.completed, m.learned, m.investigated, m.next_steps, m.notes
FROM (SELECT item_id, stamp FROM vectors_due WHERE kind = 'summary' ORDER BY item_id DESC LIMIT :limit) d
LEFT JOIN session_summaries m ON m.id = d.item_id AND NOT EXISTS (SELECT 1 FROM sdk_sessions s WHERE s.id = m.session_id AND s.hidden_at IS NOT NULL);

-- name: due_prompts
SELECT d.item_id, d.stamp, p.session_id, p.created_at AS at, p.prompt
FROM (SELECT item_id, stamp FROM vectors_due WHERE kind = 'prompt' ORDER BY item_id DESC LIMIT :limit) d
LEFT JOIN user_prompts p ON p.id = d.item_id AND NOT EXISTS (SELECT 1 FROM sdk_sessions s WHERE s.id = p.session_id AND s.hidden_at IS NOT NULL);

-- name: due_turns
SELECT d.item_id, d.stamp, t.session_id, t.at, CASE WHEN t.speaker IS NULL THEN t.text ELSE t.speaker || ': ' || t.text END AS text
FROM (SELECT item_id, stamp FROM vectors_due WHERE kind = 'turn' ORDER BY item_id DESC LIMIT :limit) d
LEFT JOIN turns t ON t.id = d.item_id AND NOT EXISTS (SELECT 1 FROM sdk_sessions s WHERE s.id = t.session_id AND s.hidden_at IS NOT NULL);

-- name: due_chunks
SELECT d.item_id, d.stamp, c.session_id, c.at, c.text
FROM (SELECT item_id, stamp FROM vectors_due WHERE kind = 'chunk' ORDER BY item_id DESC LIMIT :limit) d
LEFT JOIN chunks c ON c.id = d.item_id AND NOT EXISTS (SELECT 1 FROM sdk_sessions s WHERE s.id = c.session_id AND s.hidden_at IS NOT NULL);

-- name: vector_remove
DELETE FROM vectors WHERE kind = :kind AND item_id = :item_id RETURNING id;

-- name: vector_replace
DELETE FROM vectors WHERE kind = :kind AND item_id = :item_id AND embedder_id = :embedder_id RETURNING id;

-- name: vector_gone
INSERT INTO vectors_gone (vector_id) VALUES (:vector_id);

-- name: vectors_gone_since
SELECT id, vector_id FROM vectors_gone WHERE id > :after ORDER BY id;

-- name: vectors_gone_last
SELECT COALESCE(MAX(id), 0) AS id FROM vectors_gone;

-- name: vectors_gone_clear
DELETE FROM vectors_gone;

-- name: vectors_count
SELECT COUNT(*) AS count FROM vectors WHERE embedder_id = :embedder_id;

-- name: embedder_by_name
SELECT * FROM embedders WHERE name = :name;

-- name: embedder_serving
SELECT * FROM embedders WHERE state = 'serving';

-- name: embedder_add
INSERT INTO embedders (name, state, created_at)
VALUES (:name, CASE WHEN EXISTS (SELECT 1 FROM embedders WHERE state = 'serving') THEN 'filling' ELSE 'serving' END, :at)
ON CONFLICT (name) DO UPDATE SET state = 'filling';

-- name: embedders_abandon
-- Gives up vectors that were being made by another embedder.
UPDATE embedders SET state = 'past' WHERE state IN ('filling', 'making') AND name <> :name;

-- name: embedders_serve
UPDATE embedders SET state = CASE WHEN id = :id THEN 'serving' ELSE 'past' END;

-- name: embedders_past
SELECT id FROM embedders WHERE state = 'past';

-- name: embedder_remove
DELETE FROM embedders WHERE id = :id;

-- name: vectors_sweep
DELETE FROM vectors WHERE id IN (SELECT id FROM vectors WHERE embedder_id = :id LIMIT :limit);

-- name: migrations_list
SELECT version, name, applied_at FROM schema_versions ORDER BY version;

-- name: migration_add
INSERT INTO schema_versions (version, name, applied_at) VALUES (:version, :name, :at);

-- name: migrations_remove_unreleased
-- The first migration contains what the ones after it did.
DELETE FROM schema_versions WHERE version BETWEEN 2 AND :last;

-- name: observation_sources
SELECT e.id, e.event_id, e.tool_use_id, e.kind, e.payload FROM observation_events oe JOIN events e ON e.id = oe.event_id WHERE oe.observation_id = :id;

-- name: observations_of_same_events
SELECT DISTINCT o.observation_id AS id FROM observation_events m JOIN observation_events o ON o.event_id = m.event_id
WHERE m.observation_id = :id AND o.observation_id <> :id ORDER BY o.observation_id;

-- name: observation_remove
DELETE FROM observations WHERE id = :id;

-- name: summary_remove
DELETE FROM session_summaries WHERE id = :id;

-- name: summaries_of_round
-- The summary of a round, and the agent's own summaries of later compactions.
SELECT * FROM session_summaries
WHERE session_id = :session_id AND ((source = 'stop' AND prompt_number = :prompt_number) OR (source <> 'stop' AND prompt_number >= :prompt_number));

-- name: summaries_of_whole_session
SELECT * FROM session_summaries WHERE session_id = :session_id;

-- name: observations_of_round
SELECT * FROM observations WHERE session_id = :session_id AND prompt_number = :prompt_number;

-- name: observations_of_whole_session
SELECT * FROM observations WHERE session_id = :session_id;

-- name: event_forget
UPDATE events SET status = 'tombstone', payload = NULL, tool_name = NULL, reason = 'forgotten', lease_until = NULL, lease_owner = NULL, last_error = NULL
WHERE id = :id AND NOT (status = 'tombstone' AND payload IS NULL AND COALESCE(reason, '') <> 'untold');

-- name: forgotten_tool_uses
SELECT tool_use_id FROM events WHERE session_id = :session_id AND tool_use_id IS NOT NULL AND reason = 'forgotten';

-- name: events_of_summaries
SELECT id, event_id, tool_use_id FROM events
WHERE session_id = :session_id AND payload IS NOT NULL
  AND ((kind IN ('stop', 'subagent_stop') AND prompt_number = :prompt_number) OR (kind = 'post_compact' AND prompt_number >= :prompt_number));

-- name: events_spoken
-- The events that say what was said in a session.
SELECT id, event_id, tool_use_id, prompt_number, kind, payload, occurred_at FROM events
WHERE session_id = :session_id AND kind IN ('prompt', 'stop', 'subagent_stop', 'post_compact') AND payload IS NOT NULL;

-- name: events_of_session_after
SELECT id, payload FROM events WHERE session_id = :session_id AND payload IS NOT NULL AND id > :after ORDER BY id LIMIT :limit;

-- name: session_leases_release
-- Releases every claim on a session. Its owner notices when it finishes.
UPDATE events SET status = CASE WHEN status = 'leased' THEN 'queued' ELSE status END, lease_until = NULL, lease_owner = NULL
WHERE session_id = :session_id AND lease_owner IS NOT NULL;

-- name: prompt_put_text
UPDATE user_prompts SET prompt = :prompt WHERE id = :id;

-- name: session_put_first_prompt
UPDATE sdk_sessions SET first_user_prompt = :prompt WHERE id = :id;

-- name: summary_put_texts
UPDATE session_summaries SET request = :request, investigated = :investigated, learned = :learned, completed = :completed,
  next_steps = :next_steps, notes = :notes
WHERE id = :id;

-- name: event_forgotten_in_round
SELECT 1 AS yes FROM events
WHERE session_id = :session_id AND prompt_number = :prompt_number AND kind = :kind AND reason = 'forgotten' LIMIT 1;

-- name: events_of_prompt
SELECT id, event_id, tool_use_id FROM events WHERE session_id = :session_id AND prompt_number = :prompt_number AND kind = 'prompt';

-- name: events_of_whole_session
SELECT id, event_id, tool_use_id FROM events WHERE session_id = :session_id;

-- name: prompt_by_id
SELECT * FROM user_prompts WHERE id = :id;

-- name: prompt_forget
UPDATE user_prompts SET prompt = NULL WHERE id = :id AND prompt IS NOT NULL;

-- name: session_forget_first_prompt
UPDATE sdk_sessions SET first_user_prompt = NULL, title = NULL WHERE id = :id;

-- name: session_forget
UPDATE sdk_sessions SET forgotten_at = COALESCE(forgotten_at, :at), title = NULL, first_user_prompt = NULL, git_branch = NULL,
  transcript_path = NULL, project = '', project_key = '', cwd = '', root = ''
WHERE id = :id;

-- name: sessions_of_project
SELECT id FROM sdk_sessions WHERE (project = :project OR project_key = :project) AND forgotten_at IS NULL ORDER BY id;

-- name: forgotten_add
INSERT INTO forgotten (session_id, kind, mark, forgotten_at) VALUES (:session_id, :kind, :mark, :at) ON CONFLICT DO NOTHING;

-- name: forgotten_any_of
SELECT kind FROM forgotten WHERE session_id = :session_id LIMIT 1;

-- name: forgotten_has
SELECT 1 AS yes FROM forgotten WHERE session_id = :session_id AND kind = :kind AND mark = :mark;

-- name: forgotten_anywhere
SELECT 1 AS yes FROM forgotten WHERE kind = :kind AND mark = :mark LIMIT 1;

-- name: forgotten_text_add
INSERT INTO forgotten_texts (mark, moment, forgotten_at) VALUES (:mark, :moment, :at) ON CONFLICT DO NOTHING;

-- name: session_forget_branch
UPDATE sdk_sessions SET git_branch = NULL WHERE id = :id;

-- name: event_payload
SELECT payload, occurred_at, session_id FROM events WHERE id = :id;

-- name: erasure_add
INSERT INTO erasures (asked_at) VALUES (:at) RETURNING id;

-- name: erasures_open
SELECT id FROM erasures ORDER BY id;

-- name: erasure_done
DELETE FROM erasures WHERE id <= :id;

-- name: import_key_put
INSERT INTO import_keys (import_id, name, old_id, new_id) VALUES (:import_id, :name, :old_id, :new_id)
ON CONFLICT (import_id, name, old_id) DO UPDATE SET new_id = excluded.new_id;

-- name: import_key
SELECT new_id FROM import_keys WHERE import_id = :import_id AND name = :name AND old_id = :old_id;

-- name: import_keys_of
SELECT old_id, new_id FROM import_keys WHERE import_id = :import_id AND name = :name ORDER BY old_id;

-- name: import_keys_clear
DELETE FROM import_keys WHERE import_id = :import_id OR :import_id = '';

-- name: session_by_memory_id
SELECT id FROM sdk_sessions WHERE memory_session_id = :memory_id;

-- name: session_raise_prompt_counter
UPDATE sdk_sessions SET prompt_counter = :number WHERE id = :id AND prompt_counter < :number;

-- name: observation_of_event
SELECT observation_id AS id FROM observation_events WHERE event_id = :id ORDER BY observation_id LIMIT 1;

-- name: timeline_observations_before
SELECT id, session_id, prompt_number, type, mark, title, created_at FROM observations o
WHERE project_key = :project_key AND created_at <= :at AND hidden_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM sdk_sessions s WHERE s.id = o.session_id AND s.hidden_at IS NOT NULL)
ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: timeline_observations_after
SELECT id, session_id, prompt_number, type, mark, title, created_at FROM observations o
WHERE project_key = :project_key AND created_at > :at AND hidden_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM sdk_sessions s WHERE s.id = o.session_id AND s.hidden_at IS NOT NULL)
ORDER BY created_at, id LIMIT :limit;

-- name: timeline_summaries_before
SELECT id, session_id, prompt_number, source, request, completed, learned, created_at FROM session_summaries m
WHERE project_key = :project_key AND created_at <= :at
  AND NOT EXISTS (SELECT 1 FROM sdk_sessions s WHERE s.id = m.session_id AND s.hidden_at IS NOT NULL)
ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: timeline_summaries_after
SELECT id, session_id, prompt_number, source, request, completed, learned, created_at FROM session_summaries m
WHERE project_key = :project_key AND created_at > :at
  AND NOT EXISTS (SELECT 1 FROM sdk_sessions s WHERE s.id = m.session_id AND s.hidden_at IS NOT NULL)
ORDER BY created_at, id LIMIT :limit;

-- name: timeline_prompts_before
SELECT p.id, p.session_id, p.prompt_number, p.prompt, p.is_private, p.created_at FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id
WHERE s.project_key = :project_key AND p.created_at <= :at AND s.hidden_at IS NULL ORDER BY p.created_at DESC, p.id DESC LIMIT :limit;

-- name: timeline_prompts_after
SELECT p.id, p.session_id, p.prompt_number, p.prompt, p.is_private, p.created_at FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id
WHERE s.project_key = :project_key AND p.created_at > :at AND s.hidden_at IS NULL ORDER BY p.created_at, p.id LIMIT :limit;

-- name: summary_at
SELECT id, session_id, project, project_key, created_at FROM session_summaries WHERE id = :id;

-- name: prompt_at_id
SELECT p.id, p.session_id, s.project, s.project_key, p.created_at FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id WHERE p.id = :id;

-- name: stats_sessions
SELECT COUNT(*) AS sessions, MIN(created_at) AS first_at, MAX(last_event_at) AS last_at FROM sdk_sessions
WHERE forgotten_at IS NULL AND (:project = '' OR project = :project OR project_key = :project);

-- part: is_of_project
-- By their sessions, which indexes have, so that the rows themselves are not read.
(:project = '' OR session_id IN (SELECT id FROM sdk_sessions WHERE project = :project OR project_key = :project))

-- name: stats_prompts
SELECT COUNT(*) AS count FROM user_prompts WHERE {is_of_project};

-- name: stats_events
-- All events, and those that are not done. Only these have an index of their state.
SELECT 'all' AS status, COUNT(*) AS count FROM events WHERE {is_of_project}
UNION ALL SELECT status, COUNT(*) FROM events WHERE status IN ('queued', 'leased') AND {is_of_project} GROUP BY status
UNION ALL SELECT status, COUNT(*) FROM events WHERE status IN ('dropped', 'tombstone') AND {is_of_project} GROUP BY status
UNION ALL SELECT status, COUNT(*) FROM events WHERE status = 'dead' AND {is_of_project} GROUP BY status;

-- name: stats_observations
SELECT type, COUNT(*) AS count FROM observations WHERE {is_of_project} GROUP BY type ORDER BY type;

-- name: stats_summaries
SELECT COUNT(*) AS count FROM session_summaries WHERE {is_of_project};

-- name: stats_projects
SELECT s.project AS name, s.project_key AS key, COUNT(*) AS sessions, MIN(s.created_at) AS first_at, MAX(s.last_event_at) AS last_at,
  (SELECT COUNT(*) FROM observations o WHERE o.project_key = s.project_key) AS observations
FROM sdk_sessions s
WHERE s.project <> '' AND s.forgotten_at IS NULL AND (:project = '' OR s.project = :project OR s.project_key = :project)
GROUP BY s.project_key, s.project ORDER BY last_at DESC LIMIT :limit;

-- name: stats_events_of_project
-- How many there are, and how many characters the latest of them have on average.
SELECT (SELECT COUNT(*) FROM events e JOIN sdk_sessions s ON s.id = e.session_id WHERE s.project_key = :project_key) AS count,
  (SELECT CAST(AVG(COALESCE(LENGTH(e.payload), 0)) AS DOUBLE PRECISION) FROM events e WHERE e.id IN (
    SELECT x.id FROM events x WHERE x.session_id IN (
      SELECT s.id FROM sdk_sessions s WHERE s.project_key = :project_key ORDER BY s.last_event_at DESC LIMIT :sessions)
    ORDER BY x.session_id DESC, x.prompt_number DESC, x.id DESC LIMIT :events)) AS characters;

-- name: hours_of_sessions
-- Counts by hour in UTC, from which days of any time zone can be made.
SELECT substr(created_at, 1, 13) AS hour, COUNT(*) AS count FROM sdk_sessions
WHERE created_at >= :since AND forgotten_at IS NULL AND prompt_counter > 0 AND (:project = '' OR project = :project OR project_key = :project)
GROUP BY substr(created_at, 1, 13);

-- name: hours_of_contexts
SELECT substr(c.at, 1, 13) AS hour, COUNT(*) AS contexts, CAST(SUM(c.tokens) AS BIGINT) AS tokens
FROM contexts c JOIN sdk_sessions s ON s.id = c.session_id
WHERE c.at >= :since AND (:project = '' OR s.project = :project OR s.project_key = :project) GROUP BY substr(c.at, 1, 13);

-- name: hours_of_prompts
SELECT substr(created_at, 1, 13) AS hour, COUNT(*) AS count FROM user_prompts
WHERE created_at >= :since AND {is_of_project} GROUP BY substr(created_at, 1, 13);

-- name: hours_of_observations
SELECT substr(created_at, 1, 13) AS hour, COUNT(*) AS count FROM observations
WHERE created_at >= :since AND {is_of_project} GROUP BY substr(created_at, 1, 13);

-- name: hours_of_summaries
SELECT substr(created_at, 1, 13) AS hour, COUNT(*) AS count FROM session_summaries
WHERE created_at >= :since AND {is_of_project} GROUP BY substr(created_at, 1, 13);

-- name: ledger_days
SELECT day, CAST(SUM(input_tokens + output_tokens) AS BIGINT) AS tokens, CAST(SUM(cost_micros) AS BIGINT) AS cost_micros,
  CAST(SUM(CASE WHEN cost_micros IS NULL THEN calls ELSE 0 END) AS BIGINT) AS calls_without_price
FROM model_calls
WHERE day >= :since AND (:project = '' OR project = :project OR project_key = :project) GROUP BY day;

-- part: observed_files
SELECT project, files_read, files_modified, created_at FROM observations
WHERE superseded_by IS NULL AND hidden_at IS NULL AND (files_read <> '[]' OR files_modified <> '[]')

-- name: observed_files
{observed_files} AND substr(project_key, 1, 6) <> 'group:' ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: observed_files_of_project
{observed_files} AND project_key = :project_key ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: observed_rounds
-- When the end of a round was stored, and when it was observed, the latest first, among the latest events. Those that
-- come from transcripts ended before they were stored.
SELECT created_at, observed_at FROM events
WHERE id > (SELECT MAX(id) FROM events) - :among AND kind = 'stop' AND status = 'done' AND observed_at IS NOT NULL
  AND substr(event_id, 1, 11) <> 'transcript-'
ORDER BY id DESC LIMIT :limit;

-- name: stats_sample
-- The latest payloads, to estimate tokens per stored character.
SELECT payload, LENGTH(payload) AS stored FROM events WHERE payload IS NOT NULL ORDER BY id DESC LIMIT :limit;

-- name: observation_revise
UPDATE observations SET mark = :mark, title = :title, facts = :facts, fact_marks = :fact_marks, observed_json = :observed_json,
  importance = :importance
WHERE id = :id;

-- name: observation_edit
UPDATE observations SET type = :type, mark = :mark, title = :title, subtitle = :subtitle, narrative = :narrative, facts = :facts,
  fact_marks = :fact_marks, concepts = :concepts, observed_json = :observed_json, edited_at = :at
WHERE id = :id;

-- name: observations_with_labels
-- Observations of the rules as earlier versions stored them: a title or a fact begins with a mark.
SELECT id, session_id, provider, mark, title, facts, fact_marks, observed_json FROM observations
WHERE id > :after AND provider = 'offline' AND (title LIKE 'User: %' OR title LIKE 'Proposed: %' OR title LIKE 'Earlier: %'
  OR facts LIKE '%"User: %' OR facts LIKE '%"Proposed: %' OR facts LIKE '%"Earlier: %')
ORDER BY id LIMIT :limit;

-- name: texts_of_replies
SELECT text FROM turns WHERE session_id = :session_id AND role = 'assistant' AND text LIKE '%User%';

-- name: observation_mark
UPDATE observations SET mark = :mark, title = :title, facts = :facts, fact_marks = :fact_marks, observed_json = :observed_json WHERE id = :id;

-- name: observation_pin
UPDATE observations SET pinned_at = :at WHERE id = :id;

-- name: observation_hide
UPDATE observations SET hidden_at = :at WHERE id = :id;

-- name: session_hide
UPDATE sdk_sessions SET hidden_at = :at WHERE id = :id;

-- name: observations_hidden
SELECT o.*, s.agent, s.content_session_id FROM observations o JOIN sdk_sessions s ON s.id = o.session_id
WHERE o.hidden_at IS NOT NULL
  AND ((:project = '' AND substr(o.project_key, 1, 6) <> 'group:') OR o.project = :project OR o.project_key = :project)
ORDER BY o.hidden_at DESC, o.id DESC LIMIT :limit;

-- name: sessions_hidden
SELECT * FROM sdk_sessions
WHERE hidden_at IS NOT NULL
  AND ((:project = '' AND substr(project_key, 1, 6) <> 'group:') OR project = :project OR project_key = :project)
ORDER BY hidden_at DESC, id DESC LIMIT :limit;

-- name: observations_hidden_of_project
SELECT title FROM observations WHERE project_key = :project_key AND hidden_at IS NOT NULL ORDER BY id DESC LIMIT :limit;

-- name: word_rows_of_session
SELECT kind, item_id FROM word_rows WHERE session_id = :session_id;

-- name: observation_supersede
UPDATE observations SET superseded_by = :by, superseded_at = :at WHERE id = :id;

-- name: observation_repeat
UPDATE observations SET repeats = :repeats, times_learned = :times WHERE id = :id;

-- name: observation_restore
UPDATE observations SET superseded_by = NULL, superseded_at = NULL WHERE id = :id AND superseded_by = :by;

-- name: observation_successors
WITH RECURSIVE line (id) AS (
  SELECT id FROM observations WHERE id = :id
  UNION
  SELECT o.superseded_by FROM observations o JOIN line l ON l.id = o.id WHERE o.superseded_by IS NOT NULL
) SELECT id FROM line;

-- name: observations_superseded_by
SELECT id FROM observations WHERE superseded_by = :id;

-- name: rebuild_add
INSERT INTO rebuilds (step, before_id) VALUES (:step, :before)
ON CONFLICT (step) DO UPDATE SET before_id = excluded.before_id, done = 0, total = 0;

-- name: rebuilds_open
SELECT step, before_id, done, total FROM rebuilds;

-- name: rebuild_move
UPDATE rebuilds SET before_id = :before, done = :done, total = :total WHERE step = :step;

-- name: rebuild_remove
DELETE FROM rebuilds WHERE step = :step;

-- name: words_orphans
SELECT r.kind, r.item_id FROM word_rows r
WHERE (r.kind = 'observation' AND NOT EXISTS (SELECT 1 FROM observations o WHERE o.id = r.item_id))
  OR (r.kind = 'summary' AND NOT EXISTS (SELECT 1 FROM session_summaries m WHERE m.id = r.item_id))
  OR (r.kind = 'prompt' AND NOT EXISTS (SELECT 1 FROM user_prompts p WHERE p.id = r.item_id AND p.prompt IS NOT NULL))
  OR (r.kind = 'turn' AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = r.item_id AND t.text IS NOT NULL))
  OR (r.kind = 'chunk' AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = r.item_id))
LIMIT :limit;

-- name: observation_file_add
INSERT INTO observation_files (observation_id, path, mark) VALUES (:observation_id, :path, :mark) ON CONFLICT DO NOTHING;

-- name: statement_add
INSERT INTO statements (observation_id, subject, value, project_key) VALUES (:observation_id, :subject, :value, :project_key);

-- name: statements_remove
DELETE FROM statements WHERE observation_id = :observation_id;

-- name: statements_replaced
SELECT o.* FROM statements t JOIN observations o ON o.id = t.observation_id
WHERE t.project_key = :project_key AND t.subject = :subject AND t.value <> :value AND o.id <> :observation_id
  AND o.superseded_by IS NULL AND o.created_at < :at
ORDER BY o.id;

-- name: ledger_add
INSERT INTO model_calls (day, project_key, provider, model, project, calls, input_tokens, output_tokens, cached_tokens, cost_micros)
SELECT :day, s.project_key, :provider, :model, s.project, 1, :input_tokens, :output_tokens, :cached_tokens, CAST(:cost_micros AS BIGINT)
FROM sdk_sessions s WHERE s.id = :session_id
ON CONFLICT (day, project_key, provider, model) DO UPDATE SET
  calls = model_calls.calls + 1, input_tokens = model_calls.input_tokens + excluded.input_tokens,
  output_tokens = model_calls.output_tokens + excluded.output_tokens, cached_tokens = model_calls.cached_tokens + excluded.cached_tokens,
  cost_micros = COALESCE(model_calls.cost_micros + excluded.cost_micros, model_calls.cost_micros, excluded.cost_micros);

-- name: ledger_spent
SELECT CAST(COALESCE(SUM(input_tokens + output_tokens), 0) AS BIGINT) AS tokens, CAST(COALESCE(SUM(cost_micros), 0) AS BIGINT) AS cost_micros
FROM model_calls WHERE day = :day;

-- name: ledger_list
SELECT day, project, provider, model, CAST(SUM(calls) AS BIGINT) AS calls, CAST(SUM(input_tokens) AS BIGINT) AS input_tokens, CAST(SUM(output_tokens) AS BIGINT) AS output_tokens,
  CAST(SUM(cached_tokens) AS BIGINT) AS cached_tokens, CAST(SUM(cost_micros) AS BIGINT) AS cost_micros
FROM model_calls
WHERE (:project = '' OR project = :project OR project_key = :project)
  AND day IN (SELECT DISTINCT day FROM model_calls ORDER BY day DESC LIMIT :days)
GROUP BY day, project, provider, model ORDER BY day DESC, project, provider, model;

-- name: ledger_total
SELECT CAST(COALESCE(SUM(calls), 0) AS BIGINT) AS calls, CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT) AS input_tokens, CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT) AS output_tokens,
  CAST(COALESCE(SUM(cached_tokens), 0) AS BIGINT) AS cached_tokens, CAST(SUM(cost_micros) AS BIGINT) AS cost_micros,
  CAST(COALESCE(SUM(CASE WHEN cost_micros IS NULL THEN calls ELSE 0 END), 0) AS BIGINT) AS calls_without_price
FROM model_calls WHERE :project = '' OR project = :project OR project_key = :project;

-- name: ledger_forget_into
-- Adds the cost of a forgotten project to the unnamed project.
INSERT INTO model_calls (day, project_key, provider, model, project, calls, input_tokens, output_tokens, cached_tokens, cost_micros)
SELECT day, '', provider, model, '', calls, input_tokens, output_tokens, cached_tokens, cost_micros
FROM model_calls WHERE project_key = :project_key AND project_key <> ''
ON CONFLICT (day, project_key, provider, model) DO UPDATE SET
  calls = model_calls.calls + excluded.calls, input_tokens = model_calls.input_tokens + excluded.input_tokens,
  output_tokens = model_calls.output_tokens + excluded.output_tokens, cached_tokens = model_calls.cached_tokens + excluded.cached_tokens,
  cost_micros = COALESCE(model_calls.cost_micros + excluded.cost_micros, model_calls.cost_micros, excluded.cost_micros);

-- name: ledger_forget
DELETE FROM model_calls WHERE project_key = :project_key AND project_key <> '';

-- name: reobserve_count
-- Rounds that the rules observed in place of a model, and their events.
SELECT COUNT(*) AS rounds, CAST(SUM(r.events) AS BIGINT) AS events FROM (
  SELECT COUNT(*) AS events FROM events e JOIN sdk_sessions s ON s.id = e.session_id
  WHERE e.instead_of IS NOT NULL AND e.status = 'done' AND e.payload IS NOT NULL AND s.forgotten_at IS NULL
    AND (:project = '' OR s.project = :project OR s.project_key = :project) AND e.occurred_at >= :since
  GROUP BY e.session_id, e.prompt_number) r;

-- name: reobserve_next
SELECT e.id, e.session_id, e.prompt_number FROM events e JOIN sdk_sessions s ON s.id = e.session_id
WHERE e.instead_of IS NOT NULL AND e.status = 'done' AND e.payload IS NOT NULL AND s.forgotten_at IS NULL
  AND (:project = '' OR s.project = :project OR s.project_key = :project) AND e.occurred_at >= :since AND e.id > :after
ORDER BY e.id LIMIT 1;

-- name: reobserve_events
SELECT * FROM events
WHERE session_id = :session_id AND prompt_number = :prompt_number AND instead_of IS NOT NULL AND status = 'done'
  AND payload IS NOT NULL AND id >= :first
ORDER BY id;

-- name: reobserve_observations
-- Observations of the rules from an event, except those that were edited, pinned or superseded by hand.
SELECT o.* FROM observations o JOIN observation_events oe ON oe.observation_id = o.id
WHERE oe.event_id = :event_id AND o.instead_of IS NOT NULL AND o.edited_at IS NULL AND o.pinned_at IS NULL
  AND (o.superseded_at IS NULL OR EXISTS (SELECT 1 FROM observations later WHERE later.id = o.superseded_by AND later.repeats = o.id))
  AND NOT EXISTS (SELECT 1 FROM observations p WHERE p.superseded_by = o.id AND (o.repeats IS NULL OR p.id <> o.repeats));

-- name: reobserve_summaries
SELECT id FROM session_summaries
WHERE session_id = :session_id AND prompt_number = :prompt_number AND source = 'stop' AND instead_of IS NOT NULL;

-- name: reobserve_lease
UPDATE events SET lease_until = :lease_until, lease_owner = :owner WHERE id = :id AND status = 'done';

-- name: reobserve_release
UPDATE events SET lease_until = NULL, lease_owner = NULL WHERE session_id = :session_id AND lease_owner = :owner AND status = 'done';

-- name: reobserve_done
UPDATE events SET instead_of = NULL, lease_until = NULL, lease_owner = NULL WHERE id = :id;

-- name: reobserve_skip_round
UPDATE events SET instead_of = NULL WHERE session_id = :session_id AND prompt_number = :prompt_number;

-- name: observation_source_sizes
SELECT e.id, COALESCE(LENGTH(e.payload), 0) AS size FROM observation_events oe JOIN events e ON e.id = oe.event_id WHERE oe.observation_id = :id;

-- name: shown_observations
SELECT o.id, o.session_id, o.prompt_number, o.type, o.mark, o.title, o.subtitle, o.project, o.created_at, o.pinned_at, o.superseded_by,
  o.files_modified, s.agent, s.content_session_id
FROM observations o JOIN sdk_sessions s ON s.id = o.session_id WHERE o.id {among_ids};

-- name: items_of_open_rounds
-- The prompts that agents are answering, and what was said in these rounds.
WITH open_rounds AS (
  SELECT s.id AS session_id, s.prompt_counter AS prompt_number FROM sdk_sessions s
  WHERE s.status = 'active' AND NOT EXISTS (
    SELECT 1 FROM events e WHERE e.session_id = s.id AND e.prompt_number = s.prompt_counter AND e.kind = 'stop'))
SELECT 'prompt' AS kind, p.id, r.session_id FROM open_rounds r
JOIN user_prompts p ON p.session_id = r.session_id AND p.prompt_number = r.prompt_number
UNION ALL
SELECT 'turn' AS kind, t.id, r.session_id FROM open_rounds r
JOIN turns t ON t.session_id = r.session_id AND t.prompt_number = r.prompt_number
UNION ALL
SELECT 'chunk' AS kind, c.id, r.session_id FROM open_rounds r
JOIN turns t ON t.session_id = r.session_id AND t.prompt_number = r.prompt_number
JOIN chunks c ON c.session_id = r.session_id AND c.first_turn = t.number;

-- name: observation_statuses
SELECT id, session_id, type, mark, title, created_at, pinned_at, superseded_by, times_learned FROM observations WHERE id {among_ids};

-- name: shown_summaries
SELECT m.id, m.session_id, m.prompt_number, m.request AS title, m.completed AS subtitle, m.project, m.created_at,
  s.agent, s.content_session_id
FROM session_summaries m JOIN sdk_sessions s ON s.id = m.session_id WHERE m.id {in_ids};

-- name: shown_prompts
SELECT p.id, p.session_id, p.prompt_number, p.prompt AS title, '' AS subtitle, s.project, p.created_at,
  s.agent, s.content_session_id
FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id WHERE p.id {in_ids};

-- name: shown_turns
SELECT t.id, t.session_id, t.prompt_number, t.number AS turn, t.role, t.text AS title, '' AS subtitle, s.project,
  t.at AS created_at, s.agent, s.content_session_id
FROM turns t JOIN sdk_sessions s ON s.id = t.session_id WHERE t.id {in_ids};

-- name: observation_file_digests
SELECT f.observation_id, f.path, f.mark, s.cwd, s.root
FROM observation_files f JOIN observations o ON o.id = f.observation_id JOIN sdk_sessions s ON s.id = o.session_id
WHERE f.observation_id {in_ids};

-- name: turns_around
SELECT DISTINCT t.id, t.session_id, t.number, t.role, t.speaker, LENGTH(t.text) AS length, t.at
FROM turns h JOIN turns t ON t.session_id = h.session_id AND t.number BETWEEN h.number - :around AND h.number + :around
WHERE h.id {among_ids} AND t.text IS NOT NULL;

-- name: chunk_spans
SELECT id, session_id, first_turn, last_turn FROM chunks WHERE id {in_ids};

-- name: shown_chunks
SELECT c.id, c.session_id, c.first_turn AS turn, c.text AS title, '' AS subtitle, c.at AS created_at
FROM chunks c WHERE c.id {in_ids};

-- name: shown_sessions
SELECT s.id, s.id AS session_id, COALESCE(s.title, s.first_user_prompt, '') AS title, '' AS subtitle, s.project, s.status,
  s.created_at, s.last_event_at, s.agent, s.content_session_id
FROM sdk_sessions s WHERE s.id {in_ids} AND s.forgotten_at IS NULL;

-- name: group_add
INSERT INTO groups (name, folded, created_at) VALUES (:name, :folded, :at) ON CONFLICT DO NOTHING;

-- name: group_restore
-- A deleted group is created again. Its generations go on.
UPDATE groups SET name = :name, created_at = :at, deleted_at = NULL WHERE folded = :folded AND deleted_at IS NOT NULL;

-- name: group_by_name
SELECT * FROM groups WHERE name = :name AND deleted_at IS NULL;

-- name: group_by_fold
SELECT * FROM groups WHERE folded = :folded;

-- name: group_hold
-- It locks the row until the transaction ends.
UPDATE groups SET generation = generation WHERE name = :name AND deleted_at IS NULL RETURNING *;

-- name: group_next
UPDATE groups SET generation = generation + 1 WHERE name = :name RETURNING *;

-- name: group_delete
UPDATE groups SET deleted_at = :at, generation = generation + 1 WHERE name = :name;

-- name: groups_list
SELECT g.name, g.generation, g.created_at, s.session_id, s.updated_at,
  (SELECT COUNT(*) FROM session_history h WHERE h.group_folder = g.name) AS history,
  (SELECT COUNT(*) FROM archives a WHERE a.group_folder = g.name AND a.file IS NOT NULL) AS archives
FROM groups g LEFT JOIN sessions s ON s.group_folder = g.name
WHERE g.deleted_at IS NULL ORDER BY g.name <> 'main', g.folded;

-- name: pointer
SELECT session_id, updated_at FROM sessions WHERE group_folder = :group_folder;

-- name: pointer_put
INSERT INTO sessions (group_folder, session_id, generation, updated_at) VALUES (:group_folder, :session_id, :generation, :at)
ON CONFLICT (group_folder) DO UPDATE SET
  session_id = excluded.session_id, generation = excluded.generation, updated_at = excluded.updated_at;

-- name: pointer_remove
DELETE FROM sessions WHERE group_folder = :group_folder;

-- name: group_session_any
SELECT id FROM sdk_sessions WHERE project_key > 'group:' AND project_key < 'group;' LIMIT 1;

-- name: group_of_session
-- The group that has a session, as its active one or in its history.
SELECT group_folder FROM sessions WHERE session_id = :session_id
UNION SELECT group_folder FROM session_history WHERE session_id = :session_id;

-- name: history_put
INSERT INTO session_history (group_folder, session_id, name, created_at, archived_at)
VALUES (:group_folder, :session_id, :name, :created_at, :archived_at)
ON CONFLICT (group_folder, session_id) DO UPDATE SET
  name = excluded.name, created_at = excluded.created_at, archived_at = excluded.archived_at
RETURNING *;

-- name: history_entry
SELECT * FROM session_history WHERE id = :id AND group_folder = :group_folder;

-- name: history_remove
DELETE FROM session_history WHERE id = :id AND group_folder = :group_folder;

-- name: history_remove_session
DELETE FROM session_history WHERE group_folder = :group_folder AND session_id = :session_id;

-- name: history_remove_all
DELETE FROM session_history WHERE group_folder = :group_folder;

-- name: history_list
SELECT * FROM session_history WHERE group_folder = :group_folder ORDER BY archived_at DESC, id DESC;

-- name: archive_add
INSERT INTO archives (group_folder, session_id, title, cause, after_mark, last_mark, archived_at)
VALUES (:group_folder, :session_id, :title, :cause, :after_mark, :last_mark, :archived_at)
RETURNING *;

-- name: archive_last
SELECT * FROM archives WHERE group_folder = :group_folder AND session_id = :session_id ORDER BY id DESC LIMIT 1;

-- name: archives_unwritten
SELECT * FROM archives WHERE group_folder = :group_folder AND file IS NULL ORDER BY id;

-- name: archives_list
SELECT * FROM archives WHERE group_folder = :group_folder ORDER BY id DESC;

-- name: archive_by_file
SELECT id FROM archives WHERE group_folder = :group_folder AND file = :file;

-- name: archive_set_file
UPDATE archives SET file = :file WHERE id = :id;

-- name: groups_unwritten
SELECT DISTINCT a.group_folder FROM archives a JOIN groups g ON g.name = a.group_folder
WHERE a.file IS NULL AND g.deleted_at IS NULL;

-- name: archive_rewrite
UPDATE archives SET title = :title, file = NULL WHERE id = :id;

-- name: history_rename
UPDATE session_history SET name = :name WHERE group_folder = :group_folder AND session_id = :session_id AND name = :old;

-- name: archives_remove_session
DELETE FROM archives WHERE group_folder = :group_folder AND session_id = :session_id;

-- name: archive_remove
DELETE FROM archives WHERE id = :id AND group_folder = :group_folder;

-- name: archives_remove_all
DELETE FROM archives WHERE group_folder = :group_folder;

-- part: feed_observations
SELECT o.id, o.session_id, o.project, o.project_key, o.prompt_number, o.created_at, o.type, o.mark, o.title, o.narrative, o.pinned_at,
  o.superseded_by, o.importance, o.times_learned, s.agent, s.git_branch
FROM observations o JOIN sdk_sessions s ON s.id = o.session_id
WHERE (o.created_at, o.id) < (:at, :before) AND o.created_at >= :since AND (:type = '' OR o.type = :type)
  AND (:agent = '' OR s.agent = :agent) AND (:branch = '' OR s.git_branch = :branch) AND o.hidden_at IS NULL AND s.hidden_at IS NULL

-- part: feed_summaries
SELECT m.id, m.session_id, m.project, m.project_key, m.prompt_number, m.created_at, m.source, m.request, m.learned, m.completed,
  m.next_steps, m.notes, s.agent, s.git_branch
FROM session_summaries m JOIN sdk_sessions s ON s.id = m.session_id
WHERE (m.created_at, m.id) < (:at, :before) AND m.created_at >= :since
  AND (:agent = '' OR s.agent = :agent) AND (:branch = '' OR s.git_branch = :branch) AND s.hidden_at IS NULL

-- part: feed_prompts
SELECT p.id, p.session_id, s.project, s.project_key, p.prompt_number, p.created_at, p.prompt, p.is_private, s.agent, s.git_branch
FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id
WHERE (p.created_at, p.id) < (:at, :before) AND p.created_at >= :since AND (p.prompt IS NOT NULL OR p.is_private <> 0)
  AND (:agent = '' OR s.agent = :agent) AND (:branch = '' OR s.git_branch = :branch) AND s.hidden_at IS NULL

-- name: feed_observations
{feed_observations} AND substr(o.project_key, 1, 6) <> 'group:' ORDER BY o.created_at DESC, o.id DESC LIMIT :limit;

-- name: feed_observations_of_project
{feed_observations} AND o.project_key = :project_key ORDER BY o.created_at DESC, o.id DESC LIMIT :limit;

-- name: feed_summaries
{feed_summaries} AND substr(m.project_key, 1, 6) <> 'group:' ORDER BY m.created_at DESC, m.id DESC LIMIT :limit;

-- name: feed_summaries_of_project
{feed_summaries} AND m.project_key = :project_key ORDER BY m.created_at DESC, m.id DESC LIMIT :limit;

-- name: feed_prompts
{feed_prompts} AND substr(s.project_key, 1, 6) <> 'group:' ORDER BY p.created_at DESC, p.id DESC LIMIT :limit;

-- name: feed_prompts_of_project
-- Prompts are read by time. By the key of their sessions, all of a project would be read and sorted.
{feed_prompts} AND s.project_key || '' = :project_key ORDER BY p.created_at DESC, p.id DESC LIMIT :limit;

-- name: feed_sessions
-- Sessions of an agent or on a branch. If they are few, their entries are read by session.
SELECT id, project_key FROM sdk_sessions
WHERE (:agent = '' OR agent = :agent) AND (:branch = '' OR git_branch = :branch) AND hidden_at IS NULL
  AND ((:project = '' AND substr(project_key, 1, 6) <> 'group:') OR project = :project OR project_key = :project)
LIMIT :limit;

-- name: feed_observations_of_sessions
{feed_observations} AND o.id IN (SELECT x.id FROM observations x WHERE x.session_id {in_ids})
ORDER BY o.created_at DESC, o.id DESC LIMIT :limit;

-- name: feed_summaries_of_sessions
{feed_summaries} AND m.id IN (SELECT x.id FROM session_summaries x WHERE x.session_id {in_ids})
ORDER BY m.created_at DESC, m.id DESC LIMIT :limit;

-- name: feed_prompts_of_sessions
{feed_prompts} AND p.id IN (SELECT x.id FROM user_prompts x WHERE x.session_id {in_ids})
ORDER BY p.created_at DESC, p.id DESC LIMIT :limit;

-- name: project_keys
-- The keys of the projects with a name, or the one with this key.
SELECT DISTINCT project_key FROM sdk_sessions WHERE project = :project OR project_key = :project ORDER BY project_key LIMIT :limit;

-- name: prompt_shown
SELECT p.id, p.session_id, p.prompt_number, p.prompt, p.is_private, p.created_at, s.project, s.project_key, s.agent, s.content_session_id,
  s.git_branch, s.hidden_at
FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id WHERE p.id = :id;

-- name: branches_of_project
SELECT git_branch, project_key, MAX(last_event_at) AS last_event_at FROM sdk_sessions
WHERE git_branch IS NOT NULL AND git_branch <> '' AND forgotten_at IS NULL
  AND ((:project = '' AND substr(project_key, 1, 6) <> 'group:') OR project = :project OR project_key = :project)
GROUP BY git_branch, project_key ORDER BY last_event_at DESC LIMIT :limit;

-- name: agents_of_project
SELECT agent, project_key, COUNT(*) AS sessions FROM sdk_sessions
WHERE forgotten_at IS NULL AND ((:project = '' AND substr(project_key, 1, 6) <> 'group:') OR project = :project OR project_key = :project)
GROUP BY agent, project_key ORDER BY sessions DESC;

-- name: observation_events_shown
SELECT e.id, e.session_id, e.prompt_number, e.kind, e.occurred_at, e.tool_name, e.tool_use_id, e.payload, e.status
FROM observation_events oe JOIN events e ON e.id = oe.event_id WHERE oe.observation_id = :observation_id ORDER BY e.id LIMIT :limit;

-- name: observations_replaced
SELECT id, session_id, project_key, type, mark, title, created_at, superseded_at, superseded_by, repeats FROM observations
WHERE superseded_by = :observation_id ORDER BY id LIMIT :limit;

-- name: observation_short
SELECT id, session_id, project_key, type, mark, title, created_at, superseded_at, superseded_by, repeats FROM observations WHERE id = :id;

-- name: turns_of_prompt
SELECT id, session_id, number, role, speaker, text, at FROM turns
WHERE session_id = :session_id AND prompt_number = :prompt_number ORDER BY number LIMIT :limit;

-- name: ledger_add_unnamed
INSERT INTO model_calls (day, project_key, provider, model, project, calls, input_tokens, output_tokens, cached_tokens, cost_micros)
VALUES (:day, '', :provider, :model, '', 1, :input_tokens, :output_tokens, :cached_tokens, CAST(:cost_micros AS BIGINT))
ON CONFLICT (day, project_key, provider, model) DO UPDATE SET
  calls = model_calls.calls + 1, input_tokens = model_calls.input_tokens + excluded.input_tokens,
  output_tokens = model_calls.output_tokens + excluded.output_tokens, cached_tokens = model_calls.cached_tokens + excluded.cached_tokens,
  cost_micros = COALESCE(model_calls.cost_micros + excluded.cost_micros, model_calls.cost_micros, excluded.cost_micros);

-- name: feed_newest
SELECT (SELECT MAX(id) FROM observations) AS observation, (SELECT MAX(id) FROM session_summaries) AS summary,
  (SELECT MAX(id) FROM user_prompts) AS prompt;

-- name: observations_stored_since
SELECT o.*, s.agent, s.content_session_id, s.git_branch FROM observations o JOIN sdk_sessions s ON s.id = o.session_id
WHERE o.id > :after AND o.hidden_at IS NULL AND s.hidden_at IS NULL ORDER BY o.id LIMIT :limit;

-- name: summaries_stored_since
SELECT m.*, s.agent, s.content_session_id, s.git_branch FROM session_summaries m JOIN sdk_sessions s ON s.id = m.session_id
WHERE m.id > :after AND s.hidden_at IS NULL ORDER BY m.id LIMIT :limit;

-- part: prompt_told
SELECT p.id, p.session_id, p.prompt_number, p.prompt, p.is_private, p.created_at, s.project, s.project_key, s.agent, s.content_session_id,
  s.git_branch
FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id

-- name: prompts_stored_since
{prompt_told}
WHERE p.id > :after AND s.hidden_at IS NULL AND (p.prompt IS NOT NULL OR p.is_private <> 0) ORDER BY p.id LIMIT :limit;

-- name: prompt_told
{prompt_told}
WHERE p.session_id = :session_id AND p.prompt_number = :prompt_number;

-- name: observation_takes_events
INSERT INTO observation_events (observation_id, event_id) SELECT :id, oe.event_id FROM observation_events oe
WHERE oe.observation_id = :other ON CONFLICT DO NOTHING;
