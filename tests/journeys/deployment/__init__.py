"""The deployment under test, its clients, its outages."""
