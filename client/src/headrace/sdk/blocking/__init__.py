"""Calls of the clients, producers and consumers of `headrace`, which wait.

`client/generate_aio.py` makes those for asyncio from them, in `headrace.aio.awaited`.
"""
