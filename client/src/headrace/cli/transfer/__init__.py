"""Export of topics to files, and import of files."""
