"""The audit trail: who logged in, who was refused, who changed what; apart from the log, on the disk, bounded."""
