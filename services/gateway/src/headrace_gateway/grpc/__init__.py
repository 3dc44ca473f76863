"""The gRPC door: calls become commands of the binary protocol, and their answers messages."""
