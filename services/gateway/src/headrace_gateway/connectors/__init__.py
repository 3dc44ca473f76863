"""Access to a process with connectors, on behalf of users of this gateway."""
