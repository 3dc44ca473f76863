"""Listeners other than the binary protocol: the same core, with the same permissions and error statuses."""
