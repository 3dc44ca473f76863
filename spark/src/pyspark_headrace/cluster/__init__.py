"""Calls to a cluster: gateways, nodes, credentials, channels, retries."""
