-- Rows take less space again. What was compressed is converted afterwards, in small steps (`rebuilds`).

-- Marks are hashes, which cannot be compressed: they are stored as bytes. Until a row is converted, its body has them.
ALTER TABLE word_texts RENAME COLUMN body_and_marks TO body;
ALTER TABLE word_texts ADD COLUMN marks BLOB;

-- FTS5 stores the column of each word, except of the first column. So this is the one with most words.
DROP TABLE words;
CREATE VIRTUAL TABLE words USING fts5 (body, title, marks, content = '', tokenize = 'ascii tokenchars ''_=''');
INSERT INTO words (rowid, body, title, marks)
SELECT words_rowid, unpacked_body(body), title, substr(unpacked(body), instr(unpacked(body), char(10)) + 1) FROM word_texts;

INSERT INTO rebuilds (step, before_id)
SELECT step, 4611686018427387904 FROM (SELECT 'smaller_events' AS step UNION ALL SELECT 'smaller_words' UNION ALL SELECT 'vacuum')
WHERE EXISTS (SELECT 1 FROM sdk_sessions)
ON CONFLICT (step) DO UPDATE SET before_id = excluded.before_id;
