"""Kills and restarts of cluster services under clients that record every acknowledgement."""
