-- Finds the compactions of a session among its many events.
CREATE INDEX events_compactions ON events (session_id, occurred_at, id)
  WHERE kind IN ('pre_compact', 'session_start', 'post_compact');
