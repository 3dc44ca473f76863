"""Connectors: sources that write to topics, and sinks that read from them, in a runtime that loses nothing."""
