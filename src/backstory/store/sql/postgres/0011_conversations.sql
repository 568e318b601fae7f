-- Conversations of before there were turns: made of what was kept of them, in the background.
INSERT INTO rebuilds (step, before_id) VALUES ('chunks', 4611686018427387904);
