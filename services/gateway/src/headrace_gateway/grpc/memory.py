"""Memory budget of calls in bytes: requests from before their reception, responses until they are sent.

The size of a request is known only after its reception; until then the maximum size is accounted. Long-lived calls
would therefore reserve much unused memory, so they have a pool of their own.
"""

from __future__ import annotations

from headrace_chassis.grpc.memory import Pool


class Memory:
    """Memory pools of the gRPC listener."""

    def __init__(self, size_bytes: int) -> None:
        """Split the budget into pools."""
        self.requests_of_streams = Pool(size_bytes // 2)
        self.responses_of_streams = Pool(size_bytes // 4)
        self.calls = Pool(size_bytes // 4)
