"""The gateway: the service between clients of every protocol and the metadata service."""
