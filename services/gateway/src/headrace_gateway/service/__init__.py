"""The gateway as a process of its own, in a cluster."""
