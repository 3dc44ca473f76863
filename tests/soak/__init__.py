"""Long runs of everything that finds more the longer it runs: `make soak MINUTES=60`."""
