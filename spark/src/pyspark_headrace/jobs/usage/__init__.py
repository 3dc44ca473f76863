"""The job `usage`: what tenants have sent and stored, counted from the log itself."""
