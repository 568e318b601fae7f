"""Events become memory: what an agent did in a round, turned into observations and a summary."""
