"""Storage of batches with the states of their sources: at least once, or exactly once."""
