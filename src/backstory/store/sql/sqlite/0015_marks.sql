-- Who said a title or a fact, or when, if it need not hold. Before, the text began with it. `marked` converts old rows.
ALTER TABLE observations ADD COLUMN mark TEXT NOT NULL DEFAULT '' CHECK (mark IN ('', 'user', 'proposed', 'earlier'));
-- The marks of the facts, in their order, as JSON; [] if none has one.
ALTER TABLE observations ADD COLUMN fact_marks TEXT NOT NULL DEFAULT '[]';
