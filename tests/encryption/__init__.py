"""The encrypted doors: TLS and QUIC on real sockets, with clients that were not written here."""
