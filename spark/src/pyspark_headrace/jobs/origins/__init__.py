"""Sources of message ranges for jobs: topics, and archives of topics."""
