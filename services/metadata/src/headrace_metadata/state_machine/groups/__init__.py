"""Consumer groups: records, commands, assignment of partitions, timeouts."""
