"""Wheels as users install them."""
