"""Types of values: addresses, durations, names, secrets, sizes."""
