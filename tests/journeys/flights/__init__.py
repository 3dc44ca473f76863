"""A year of flights through the official client, and back: `make demo`."""
