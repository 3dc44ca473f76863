"""Codecs that come with Headrace."""
