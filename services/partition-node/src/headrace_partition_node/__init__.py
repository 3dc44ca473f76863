"""A partition node: the service that hosts the shards with the partitions."""
