"""The job `usage`: traffic and storage of tenants, measured from the log itself."""
