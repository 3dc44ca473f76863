"""What headers say of a message that a job has put aside, whichever job it was."""

from __future__ import annotations

from typing import Final

REASON: Final = "x-dead-letter-reason"
"""Why it is a bad one."""
TOPIC: Final = "x-dead-letter-topic"
PARTITION: Final = "x-dead-letter-partition"
OFFSET: Final = "x-dead-letter-offset"
"""Where it was."""

OURS: Final = (REASON, TOPIC, PARTITION, OFFSET)

VALUE_BYTES_MAX: Final = 255
"""Of a header."""
KEPT_BYTES_MAX: Final = 64_000
"""Of headers that the message had, with room for ours and for how they are packed."""
HEADER_BYTES: Final = 16
"""What each of them takes besides its texts, at most."""
