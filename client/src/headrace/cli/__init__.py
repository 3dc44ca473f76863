"""The command line: one module per command; `app` assembles them."""

import os

# Set before the gRPC library is loaded, which otherwise prints a line for every failed handshake, bypassing the log:
# unauthenticated clients could flood the output.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
