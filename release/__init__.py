"""`make release`: wheels of all distributions and targets, with what they consist of and their hashes."""
