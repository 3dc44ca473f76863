"""The metadata service: who exists, what exists, and what may be done with it.

``state_machine`` holds the rules and does no I/O. ``replica`` joins it to a native replica, which orders commands,
makes them durable on a majority and hands them back to be applied. ``api`` offers the two to other processes over
gRPC; ``app`` is the service process. A server that embeds the service uses ``replica`` alone.
"""
