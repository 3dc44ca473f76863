"""Parts of the gRPC servers of all services: credentials, refusals, limits of unauthenticated calls."""
