"""Clients that were not written here, and the protocol that they speak, byte by byte."""
