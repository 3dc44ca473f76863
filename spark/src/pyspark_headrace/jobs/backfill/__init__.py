"""The job `backfill`: messages of an archive, or of a range of a topic, into a topic once more."""
