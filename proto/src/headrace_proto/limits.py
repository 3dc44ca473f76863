"""Limits that are part of the formats or of the product's promises; the Python counterpart of the model crate's.

The first three follow from the 12, 12 and 20 bits that a packed namespace gives to stream, topic and partition.
"""

from __future__ import annotations

from typing import Final

STREAMS_MAX: Final = 1 << 12
TOPICS_PER_STREAM_MAX: Final = 1 << 12
PARTITIONS_PER_TOPIC_MAX: Final = 1 << 20
PARTITIONS_PER_COMMAND_MAX: Final = 1000

# Partitions keep stored offsets under these, in 32 bits.
GROUP_KEY_MAX: Final = (1 << 32) - 1
# Each is told to every gateway and node with all of its members.
GROUPS_PER_TOPIC_MAX: Final = 10_000
# 2^32-1 means "nobody" in the client listings of the binary protocol, so it is no user's id.
USER_ID_MAX: Final = (1 << 32) - 2
# Travels as a single byte on the wire.
REPLICATION_FACTOR_MAX: Final = 255

# So many lists of replicas stay small enough to be compared and sent as a whole.
NODES_MAX: Final = 1024
NODE_SHARDS: Final = range(1, 1 << 16)

# Lengths are counted in bytes of UTF-8.
NAME_BYTES: Final = range(1, 256)
USERNAME_BYTES: Final = range(3, 51)
PASSWORD_BYTES: Final = range(3, 101)
ACCESS_TOKEN_NAME_BYTES: Final = range(3, 31)

# As many as an id of 128 bits deserves.
LOGIN_DIGEST_BYTES: Final = 16

# Transactions belong to a stream; what a commit names stays far below a mebibyte, which is as much as the replicated
# log takes.
STAGE_ID_BYTES: Final = 16
STAGE_LIFETIME_SECONDS_MAX: Final = 7 * 24 * 60 * 60
STAGES_PER_COMMAND_MAX: Final = 16_384
# Committed and not yet appended. A partition that takes nothing holds up its own writers, not those of all others.
STAGES_PENDING_PER_PARTITION_MAX: Final = 16_384
STAGES_PENDING_MAX: Final = 262_144
# Given up, and not yet expired.
STAGES_ABORTED_MAX: Final = 65_536
TRANSACTIONS_PER_STREAM_MAX: Final = 1_000
TRANSACTIONS_MAX: Final = 65_536
# Beside the one that writes.
QUERIES_PER_TRANSACTION_MAX: Final = 8
# In a stream with as many as there may be, a new one takes the place of one that was not committed in for so long.
TRANSACTION_KEPT_SECONDS_MIN: Final = 7 * 24 * 60 * 60
PINS_PER_STREAM_MAX: Final = 1_000
PIN_SIZE_BYTES_MAX: Final = 256 * 1024
# Of all pins together: they are part of every snapshot of the state.
PINS_SIZE_BYTES_MAX: Final = 32 * 1024 * 1024
