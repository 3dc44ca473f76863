"""User journeys through Headrace, from beginning to end."""
