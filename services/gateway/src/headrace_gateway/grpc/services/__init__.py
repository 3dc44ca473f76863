"""The services of the gRPC API, one per module."""
