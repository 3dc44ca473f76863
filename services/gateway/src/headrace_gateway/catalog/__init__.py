"""The catalog at this gateway: followed, indexed, and refreshed before a refusal."""
