-- How likely a later session needs an observation, in percent.
ALTER TABLE observations ADD COLUMN importance BIGINT NOT NULL DEFAULT 50;
CREATE INDEX observations_by_importance ON observations (project_key, importance) WHERE superseded_by IS NULL;
