"""The HTTP interface: JSON in front of the binary protocol.

A handler translates a request into one command, sends it over a session of the user who asks, and translates the
answer back. What exists, what is allowed and in which order that is checked is decided where it always is: behind that
session.
"""
