"""The gRPC API: calls become commands of the binary protocol, and their answers become messages."""
