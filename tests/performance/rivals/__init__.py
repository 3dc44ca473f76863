"""Other logs on this machine, to measure the SDK beside their clients."""
