-- Nothing: PostgreSQL compresses by itself.
SELECT 1;
