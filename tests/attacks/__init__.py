"""Attacks of unauthenticated clients on a real server, and their effect on other users."""
