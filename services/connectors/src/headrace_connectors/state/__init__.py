"""State of connectors between runs."""
