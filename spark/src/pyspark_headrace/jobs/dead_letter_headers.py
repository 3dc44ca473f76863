"""Headers of dead letters, common to all jobs."""

from __future__ import annotations

from typing import Final

REASON: Final = "x-dead-letter-reason"
"""Reason why the message is bad."""
TOPIC: Final = "x-dead-letter-topic"
PARTITION: Final = "x-dead-letter-partition"
OFFSET: Final = "x-dead-letter-offset"
"""Original position of the message."""

OURS: Final = (REASON, TOPIC, PARTITION, OFFSET)

VALUE_BYTES_MAX: Final = 255
"""Maximum size of a header value."""
KEPT_BYTES_MAX: Final = 64_000
"""Maximum size of preserved headers, with room for added headers and encoding overhead."""
HEADER_BYTES: Final = 16
"""Maximum encoding overhead of a header."""
