-- Counts events that were dropped or forgotten. Other states have their indexes, and what is in none is done.
CREATE INDEX events_without_payload ON events (session_id, status) WHERE status IN ('dropped', 'tombstone');

-- The main group searches all groups, and nothing else.
DROP FUNCTION vectors_nearest;
CREATE FUNCTION vectors_nearest(
  embedder BIGINT, query TEXT, kinds TEXT, project TEXT, agent TEXT, session BIGINT, type TEXT, concept TEXT, file TEXT,
  since TEXT, until TEXT, number BIGINT, outside BIGINT, inside BIGINT
) RETURNS TABLE (kind TEXT, item_id BIGINT, session_id BIGINT, at TEXT, score FLOAT8) LANGUAGE plpgsql STABLE AS $$ BEGIN
  -- Planned anew each time, with its values known: what is not asked for costs nothing.
  RETURN QUERY EXECUTE format($query$
    SELECT v.kind, v.item_id, v.session_id, v.at, 1 - (v.vector::halfvec(%1$s) <=> $1::halfvec(%1$s)) AS score
    FROM vectors v JOIN sdk_sessions s ON s.id = v.session_id
    LEFT JOIN observations o ON v.kind = 'observation' AND o.id = v.item_id
    WHERE v.embedder_id = %2$s
      AND v.kind = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)))
      AND ($3 = '' OR s.project = $3 OR s.project_key = $3) AND ($4 = '' OR s.agent = $4)
      AND ($5 = 0 OR v.session_id = $5) AND ($12 = 0 OR substr(s.project_key, 1, 6) <> 'group:')
      AND ($13 = 0 OR substr(s.project_key, 1, 6) = 'group:')
      AND ($6 = '' OR o.type = $6) AND ($7 = '' OR strpos(o.concepts, $7) > 0)
      AND ($8 = '' OR strpos(lower(o.files_read || o.files_modified), '"' || $8 || '"') > 0
        OR strpos(lower(o.files_read || o.files_modified), '/' || $8 || '"') > 0)
      AND v.at >= $9 AND ($10 = '' OR v.at <= $10 || '~')
    ORDER BY v.vector::halfvec(%1$s) <=> $1::halfvec(%1$s) LIMIT $11
  $query$, vector_dims(query::halfvec), embedder)
  USING query, kinds, project, agent, session, type, concept, file, since, until, number, outside, inside;
END $$;
