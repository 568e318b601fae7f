-- What models cost, by the day on the user's clock; and what the rules observed in a model's place.

-- Every call counts, also one whose answer was of no use.
CREATE TABLE model_calls (
  day TEXT NOT NULL,
  project_key TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  project TEXT NOT NULL,
  calls BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  cached_tokens BIGINT NOT NULL,
  -- Millionths of a dollar; NULL where no price is known.
  cost_micros BIGINT,
  PRIMARY KEY (day, project_key, provider, model)
);

-- The provider that was chosen and could not be asked: the rules stood in for it, and `backstory reobserve` does it over.
ALTER TABLE events ADD COLUMN instead_of TEXT;
ALTER TABLE observations ADD COLUMN instead_of TEXT;
ALTER TABLE session_summaries ADD COLUMN instead_of TEXT;
CREATE INDEX events_stood_in ON events (session_id, prompt_number) WHERE instead_of IS NOT NULL;

-- What people have changed by hand is theirs: nothing takes its place.
ALTER TABLE observations ADD COLUMN edited_at TEXT;
