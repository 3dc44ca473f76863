"""What connectors remember between runs."""
