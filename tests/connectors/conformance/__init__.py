"""Conformance of plugins: those that come with Headrace, and planted ones that break a rule each."""
