"""Limits of the formats or of the product's guarantees; the Python counterpart of the model crate's.

The first three follow from the 12, 12 and 20 bits that a packed namespace gives to stream, topic and partition.
"""

from __future__ import annotations

from typing import Final

STREAMS_MAX: Final = 1 << 12
TOPICS_PER_STREAM_MAX: Final = 1 << 12
PARTITIONS_PER_TOPIC_MAX: Final = 1 << 20
PARTITIONS_PER_COMMAND_MAX: Final = 1000

# Partitions store offsets of groups under these keys, in 32 bits.
GROUP_KEY_MAX: Final = (1 << 32) - 1
# Every group is sent to every gateway and node with all of its members.
GROUPS_PER_TOPIC_MAX: Final = 10_000
# 2^32-1 stands for "not authenticated" in the client listings of the binary protocol, so it is not a valid user id.
USER_ID_MAX: Final = (1 << 32) - 2
# Encoded as a single byte on the wire.
REPLICATION_FACTOR_MAX: Final = 255

# Lists of replicas for this many nodes are small enough to be compared and sent as a whole.
NODES_MAX: Final = 1024
NODE_SHARDS: Final = range(1, 1 << 16)

# A lower rate would delay a single message of ordinary size for minutes.
QUOTA_RATE_BYTES_MIN: Final = 1024

# Lengths are counted in bytes of UTF-8.
NAME_BYTES: Final = range(1, 256)
USERNAME_BYTES: Final = range(3, 51)
PASSWORD_BYTES: Final = range(3, 101)
ACCESS_TOKEN_NAME_BYTES: Final = range(3, 31)

# A digest as long as the id, of 128 bits.
LOGIN_DIGEST_BYTES: Final = 16

# Transactions belong to a stream. The stages of one commit take far less than a mebibyte, the limit of the replicated
# log.
STAGE_ID_BYTES: Final = 16
STAGE_LIFETIME_SECONDS_MAX: Final = 7 * 24 * 60 * 60
STAGES_PER_COMMAND_MAX: Final = 16_384
# Committed stages that are not appended yet. A partition that appends nothing blocks only its own writers.
STAGES_PENDING_PER_PARTITION_MAX: Final = 16_384
STAGES_PENDING_MAX: Final = 262_144
# Aborted stages that have not expired yet.
STAGES_ABORTED_MAX: Final = 65_536
TRANSACTIONS_PER_STREAM_MAX: Final = 1_000
TRANSACTIONS_MAX: Final = 65_536
# Previous owners of a transactional id that are remembered.
QUERIES_PER_TRANSACTION_MAX: Final = 8
# In a stream with the maximum number of transactions, a new one may evict another after this time without a commit.
TRANSACTION_KEPT_SECONDS_MIN: Final = 7 * 24 * 60 * 60
PINS_PER_STREAM_MAX: Final = 1_000
PIN_SIZE_BYTES_MAX: Final = 256 * 1024
# Total size of all pinned values, which are part of every snapshot of the state.
PINS_SIZE_BYTES_MAX: Final = 32 * 1024 * 1024
