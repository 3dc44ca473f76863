"""What can be seen of the server from outside: how far consumers are, metrics, traces."""
