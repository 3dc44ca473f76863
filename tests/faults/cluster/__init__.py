"""Services of a cluster that die and come back under clients who remember what they were promised."""
