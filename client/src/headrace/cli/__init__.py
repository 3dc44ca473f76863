"""The command line: one module per command; `app` puts them together."""

import os

# Before anything loads the gRPC library, which else writes a line past the log for every peer that cannot shake hands:
# as many as strangers like.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
