"""The search index: tokens, stems, weights, chunks and vectors, the same for both engines."""
