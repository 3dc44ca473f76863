"""The command line: one module per command; `app` puts them together."""
