"""The gRPC API of a real server, through a real client (GW-6)."""
