"""Types of bodies, queries and answers of the HTTP API; used for decoding, encoding and the API description."""
