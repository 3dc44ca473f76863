"""gRPC: whole batches, straight from the partitions and into them."""
