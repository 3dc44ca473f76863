"""Benchmarks of the server, compared with the limits of the machine itself: `make bench`."""
