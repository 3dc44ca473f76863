"""The metadata service: users, objects and permissions.

``state_machine`` holds the rules and does no I/O. ``replica`` joins it to a native replica, which orders commands,
makes them durable on a majority and returns them to be applied. ``api`` offers the two to other processes over gRPC;
``app`` is the service process. A server that embeds the service uses ``replica`` alone.
"""
