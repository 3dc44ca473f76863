"""What strangers try on a real server, and what others notice of it meanwhile."""
