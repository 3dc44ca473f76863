"""Users, their permissions and their tokens: records and commands."""
