-- The agent's own id of the prompt that an event was done for, or that it tells of: also where that prompt is not known.
ALTER TABLE events ADD COLUMN prompt_id TEXT;
CREATE INDEX events_by_prompt_id ON events (session_id, prompt_id) WHERE prompt_id IS NOT NULL;
