"""Pipeline files: which connectors run, checked before anything starts."""
