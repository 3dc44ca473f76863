"""Where jobs read ranges of messages from: topics, and archives of topics."""
