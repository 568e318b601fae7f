-- What several sessions learned is one memory: the latest stands, names the one before it, and counts them.
ALTER TABLE observations ADD COLUMN repeats BIGINT REFERENCES observations (id) ON DELETE SET NULL;
ALTER TABLE observations ADD COLUMN times_learned BIGINT NOT NULL DEFAULT 1;
