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
