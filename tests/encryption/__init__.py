"""Encrypted listeners: TLS and QUIC on real sockets, with independent clients."""
