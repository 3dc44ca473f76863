"""Messages as columns: schemas, Arrow arrays, digests."""
