"""The tests that a change can reach: `make test-changed`."""
