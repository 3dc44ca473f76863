"""The job `migrate`: an archive that an earlier release has written becomes a Delta Lake table, in its place."""
