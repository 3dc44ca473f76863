"""The gRPC API: raw batches directly from and to the partitions."""
