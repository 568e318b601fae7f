-- The columns of an observation say what its JSON says, so that is made from them. What an import or an earlier version
-- stored is kept in observed_json, unless it says the same. PostgreSQL stores the JSON nevertheless.
ALTER TABLE observations ADD COLUMN observed_json TEXT NOT NULL DEFAULT '';
ALTER TABLE observations ALTER COLUMN observed_json DROP DEFAULT;
CREATE FUNCTION observation_json() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
  NEW.compressed_observation := CASE WHEN NEW.observed_json <> '' THEN NEW.observed_json ELSE
    '{"type": ' || to_json(NEW.type) || ', "title": ' || to_json(NEW.title) || ', "subtitle": ' || to_json(NEW.subtitle)
    || ', "narrative": ' || to_json(NEW.narrative) || ', "facts": ' || NEW.facts || ', "concepts": ' || NEW.concepts
    || ', "files_read": ' || NEW.files_read || ', "files_modified": ' || NEW.files_modified || '}' END;
  RETURN NEW;
END $$;
CREATE TRIGGER observations_json BEFORE INSERT OR UPDATE OF type, title, subtitle, narrative, facts, concepts, files_read, files_modified, observed_json
  ON observations FOR EACH ROW EXECUTE FUNCTION observation_json();
-- No query needs these.
DROP INDEX observations_by_memory;
DROP INDEX observations_by_project;
DROP INDEX session_summaries_by_project;
-- One index finds a tool use in its session and in any.
DROP INDEX events_by_tool_use_anywhere;
DROP INDEX events_by_tool_use;
CREATE UNIQUE INDEX events_by_tool_use ON events (tool_use_id, session_id) WHERE tool_use_id IS NOT NULL;

INSERT INTO rebuilds (step, before_id)
SELECT 'smaller_observations', 4611686018427387904 WHERE EXISTS (SELECT 1 FROM sdk_sessions);
