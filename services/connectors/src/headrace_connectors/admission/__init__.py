"""Admission of destinations: which ones may be used, how many, and which ones keep failing."""
