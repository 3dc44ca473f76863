"""Transforms that come with Headrace."""
