"""History of connectors, for status and pages."""
