-- Texts that were forgotten, by a keyed digest: a copy of a conversation under another session's id must not bring them back.
CREATE TABLE forgotten_texts (
  mark TEXT NOT NULL,
  -- When it was said; empty if it is to be kept out whenever it was.
  moment TEXT NOT NULL,
  forgotten_at TEXT NOT NULL,
  PRIMARY KEY (mark, moment)
);

-- An observation that was forgotten is known again in any session.
CREATE INDEX forgotten_by_mark ON forgotten (kind, mark);
