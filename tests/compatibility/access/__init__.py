"""Users, permissions and logins."""
