"""Subscriptions: start positions, filters, credit, delivery."""
