"""The HTTP interface: status, mappings, metrics, and what operators do."""
