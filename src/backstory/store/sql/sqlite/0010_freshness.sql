-- Memory ages honestly.

-- What a file held when an observation was made of it: a mark of its content, to see later whether it has changed.
CREATE TABLE observation_files (
  observation_id INTEGER NOT NULL REFERENCES observations (id) ON DELETE CASCADE,
  path TEXT NOT NULL,
  mark TEXT NOT NULL,
  PRIMARY KEY (observation_id, path)
) WITHOUT ROWID;

-- What an observation states of a subject: a later one that states another value of it takes its place.
CREATE TABLE statements (
  observation_id INTEGER NOT NULL REFERENCES observations (id) ON DELETE CASCADE,
  subject TEXT NOT NULL,
  value TEXT NOT NULL,
  project_key TEXT NOT NULL,
  PRIMARY KEY (observation_id, subject)
) WITHOUT ROWID;
CREATE INDEX statements_by_subject ON statements (project_key, subject);
