"""Access: passwords, logins and their limits, tokens, revocations, trusted proxies."""
