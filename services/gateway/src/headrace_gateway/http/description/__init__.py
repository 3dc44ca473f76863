"""The description of the API: OpenAPI, and a page for people."""
