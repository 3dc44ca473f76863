"""The listeners of a process: their settings, the native ones, and their start."""
