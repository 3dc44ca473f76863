"""Files of a partition beside the service: read again, set aside, counted and named."""
