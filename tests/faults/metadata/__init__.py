"""Three real replicas of the metadata service under kills, pauses and partitions."""
