"""The program behind `make test`, `make test-all` and `make test-rest`."""
