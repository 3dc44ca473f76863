"""What the server reaches on this machine, beside what the machine itself can do: `make bench`."""
