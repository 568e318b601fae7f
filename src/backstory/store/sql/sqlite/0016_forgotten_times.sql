-- Whether a report that arrives late may say what was forgotten meanwhile.
CREATE INDEX forgotten_texts_by_time ON forgotten_texts (forgotten_at);
