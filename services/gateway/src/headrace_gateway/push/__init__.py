"""Messages pushed to browsers over a WebSocket: `docs/push.md` describes what is said there."""
