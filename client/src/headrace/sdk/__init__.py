"""The SDK: blocking clients, and everything that they share with those for asyncio."""
