"""Headers of dead letters, and what stands for parts that cannot be kept, common to all jobs."""

from __future__ import annotations

from typing import Final

REASON: Final = "x-dead-letter-reason"
"""Reason why the message is bad."""
TOPIC: Final = "x-dead-letter-topic"
PARTITION: Final = "x-dead-letter-partition"
OFFSET: Final = "x-dead-letter-offset"
"""Original position of the message."""
HEADERS: Final = "x-dead-letter-headers"
"""Reason why the headers of the message are missing: `UNREADABLE` or `TOO_LARGE`. Letters with all headers lack it."""

KEY: Final = "headrace.key"
"""Header with the key of a message. The column `headers` has one if there are several, or if its name is no text."""

OURS: Final = (REASON, TOPIC, PARTITION, OFFSET, HEADERS, KEY)
"""Names of headers that are not kept: a dead letter has its own, and the sink does not write a second key."""

UNREADABLE: Final = "unreadable"
"""The producer has encrypted the headers."""
TOO_LARGE: Final = "too large"
"""The headers have more than `KEPT_BYTES_MAX`."""

EMPTY: Final = "it is empty"
"""Reason of a message with an empty value."""
EMPTY_VALUE: Final = b"null"
"""Value in place of an empty one, which the sink does not write, because official clients refuse to read it."""

VALUE_BYTES_MAX: Final = 255
"""Maximum size of a header value."""
KEPT_BYTES_MAX: Final = 64_000
"""Maximum size of preserved headers, with room for added headers and encoding overhead."""
HEADER_BYTES: Final = 16
"""Maximum encoding overhead of a header."""
