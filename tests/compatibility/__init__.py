"""Third-party clients, and the bytes of the protocol that they use."""
