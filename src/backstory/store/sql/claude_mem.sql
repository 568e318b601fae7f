-- Queries on claude-mem's own database, which is only read.

-- name: tables
SELECT name FROM sqlite_master WHERE type = 'table';

-- name: sdk_sessions
SELECT * FROM sdk_sessions ORDER BY id;

-- name: observations
SELECT * FROM observations ORDER BY id;

-- name: session_summaries
SELECT * FROM session_summaries ORDER BY id;

-- name: user_prompts
SELECT * FROM user_prompts ORDER BY id;
