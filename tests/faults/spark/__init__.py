"""Queries of Spark whose driver, executors and servers are killed time and again."""
