"""PostgreSQL, as its sources and its sink use it: connections, failures, names."""
