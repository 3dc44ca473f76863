"""Tests of sources with several batches in flight."""
