"""The HTTP API: JSON on top of the binary protocol.

A handler translates a request into one command, sends it over a session of the requesting user, and translates the
answer back. Existence and permissions are checked behind that session, in the same order as for the binary protocol.
"""
