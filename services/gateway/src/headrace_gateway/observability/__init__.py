"""Observability: consumer lag, metrics, traces."""
