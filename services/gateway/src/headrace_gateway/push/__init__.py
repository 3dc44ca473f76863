"""Push of messages to browsers over WebSocket; `docs/push.md` describes the protocol."""
