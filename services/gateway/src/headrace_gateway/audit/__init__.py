"""The audit trail: logins, refusals and changes; kept on disk apart from the log, with bounded size."""
