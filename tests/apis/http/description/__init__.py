"""The description of the API, and what is generated from it."""
