"""The job `backfill`: replay of messages from an archive or a range of a topic into a topic."""
