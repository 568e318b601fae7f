-- What people and agents say about an observation: it always stands in context, or another has taken its place.
ALTER TABLE observations ADD COLUMN pinned_at TEXT;
-- One that was replaced is history: it leaves the context, and points to what holds now.
ALTER TABLE observations ADD COLUMN superseded_by BIGINT REFERENCES observations (id) ON DELETE SET NULL;
ALTER TABLE observations ADD COLUMN superseded_at TEXT;
CREATE INDEX observations_pinned ON observations (project_key, pinned_at) WHERE pinned_at IS NOT NULL;
CREATE INDEX observations_superseded ON observations (superseded_by) WHERE superseded_by IS NOT NULL;
