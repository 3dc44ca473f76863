"""Plugins: finding them, and refusing those of another contract before any of their code runs."""
