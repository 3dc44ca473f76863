"""The metadata service: who exists, what exists, and what may be done with it.

``state_machine`` holds the rules and does no I/O. ``journal`` and ``snapshot`` are the files that it survives
in. ``replica`` joins them: it orders proposals, makes them durable, applies them and answers.
"""
