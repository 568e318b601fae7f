-- Counts events that were dropped or forgotten. Other states have their indexes, and what is in none is done.
CREATE INDEX events_without_payload ON events (session_id, status) WHERE status IN ('dropped', 'tombstone');
