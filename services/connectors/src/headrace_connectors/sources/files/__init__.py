"""The source `files`: log files that grow, and files with tables."""
