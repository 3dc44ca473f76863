"""Gateways as processes of their own."""
