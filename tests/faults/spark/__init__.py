"""Spark queries whose driver, executors and servers are killed repeatedly."""
