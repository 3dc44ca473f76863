"""Tests of the crates with a time limit."""
