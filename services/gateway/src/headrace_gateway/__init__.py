"""The gateway: what stands between clients, however they are connected, and the metadata service."""
