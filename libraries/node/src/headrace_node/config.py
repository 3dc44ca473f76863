"""Settings of the shards: storage, durability and resources."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from headrace_settings import Between, Duration, MultipleOf, Section, SharedBy, Size

Durability = Literal["memory", "os", "fsync"]
Driver = Literal["auto", "uring", "poll"]

_CPU_ALLOCATION = re.compile(
    r"all|[1-9][0-9]*|[0-9]+\.\.[0-9]+"
    r"|numa:(auto|nodes=[0-9]+(,[0-9]+)*(;cores=[0-9]+)?(;no_ht=(true|false))?)"
)


def _cpu_allocation(text: str) -> str:
    # Only the syntax is checked here: the available CPUs and nodes are known when the threads are started.
    if not _CPU_ALLOCATION.fullmatch(text):
        raise ValueError(
            f"{text!r} is not valid: give all, a number of cores, a range such as 0..4 (end exclusive), numa:auto, "
            "numa:nodes=0,1 with optional ;cores=4 and ;no_ht=true"
        )
    start, dots, end = text.partition("..")
    if dots and int(start) >= int(end):
        raise ValueError(f"the range {text} is empty: its end is exclusive")
    return text


class SegmentConfig(Section):
    """`system.segment`."""

    size: Annotated[Size, Between(Size.parse("4 KiB"), Size.parse("1 GiB")), MultipleOf(512)] = Size.parse("1 GiB")
    """Size at which a segment is sealed and the next one is opened. The batch that reaches it is not split."""
    cache_indexes: Literal["all", "open_segment", "none"] = "open_segment"
    """Segments whose index entries stay in memory."""


class PartitionConfig(Section):
    """`system.partition`."""

    messages_required_to_save: Annotated[int, Between(1, 10_000_000)] = 1024
    """Number of pending messages that triggers a write to the log file, with durability `memory`."""
    size_of_messages_required_to_save: Annotated[Size, Between(Size(1), Size.parse("1 GiB"))] = Size.parse("1 MiB")
    """Size of pending messages that triggers a write to the log file, with durability `memory`."""
    tail_cache_size: Annotated[Size, Between(high=Size.parse("1 GiB"))] = Size.parse("16 MiB")
    """Memory in which each partition may keep the most recently written messages, so that consumers near the end are
    served without reading files. All partitions together keep at most half of the memory pool, and less when memory is
    short. 0 disables the cache.
    """
    max_consumers: Annotated[int, Between(1, 1_000_000), SharedBy.USERS] = 100_000
    """Maximum number of consumers with a stored offset in one partition; one more is refused (status 20003), also to a
    user who has half of what others leave. Consumer groups do not count.
    """
    verified_for: Annotated[Duration, Between(Duration.parse("0 s"), Duration.parse("1 day"))] = Duration.parse("1 m")
    """Time for which messages that were read from a file and had valid checksums are not verified again, so that
    consumers that follow each other share the work. `0 s` verifies on every read.
    """


class ScrubConfig(Section):
    """`system.scrub`: files of partitions are read again in the background, so that damage is found early."""

    rate: Annotated[Size, Between(high=Size.parse("16 GiB"))] = Size.parse("4 MiB")
    """Number of bytes per second that the process reads at most, past the page cache. 0 switches the scrub off."""
    interval: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("365 days"))] = Duration.parse("7 days")
    """Time from the beginning of a pass through all files to that of the next one. A pass that takes longer is followed
    by the next one at once.
    """


class MemoryPoolConfig(Section):
    """`system.memory_pool`."""

    size: Annotated[Size, MultipleOf(4096), Between(Size.parse("16 MiB"), Size.parse("16 TiB"))] = Size.parse("4 GiB")
    """Maximum memory for the buffers of all shards together. It is a bound, not a reservation: beyond it requests wait.
    A batch may use at most half of it, and so may all unanswered large requests of one user together.
    """
    small: bool = False
    """Permit a size below 512 MiB, for a server embedded in a test or a notebook."""
    idle_time: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 day"))] = Duration.parse("10 s")
    """Time after which unused large buffers are returned to the operating system. It may take up to twice this time."""

    @model_validator(mode="after")
    def _small_pools_are_deliberate(self) -> Self:
        minimum = Size.parse("512 MiB")
        if self.size < minimum and not self.small:
            raise ValueError(f"size = {self.size} is less than {minimum}; small = true permits it")
        return self


class ShardingConfig(Section):
    """`system.sharding`."""

    cpu_allocation: Annotated[str, AfterValidator(_cpu_allocation)] = "numa:auto"
    """Number and placement of shards, one per core, each pinned to its own: `all`, a number of cores, a range such as
    `5..8` (end exclusive), `numa:auto` (one per physical core of every NUMA node), or
    `numa:nodes=0,1;cores=4;no_ht=true`.
    """


class StorageConfig(Section):
    """`system`."""

    path: str = "local_data"
    """Data directory. Only one server at a time can use it."""
    segment: SegmentConfig = SegmentConfig()
    partition: PartitionConfig = PartitionConfig()
    scrub: ScrubConfig = ScrubConfig()
    memory_pool: MemoryPoolConfig = MemoryPoolConfig()
    sharding: ShardingConfig = ShardingConfig()


class MessageSaverConfig(Section):
    """`message_saver`: background writes and syncs of messages that have not reached a threshold."""

    interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 day"))] = Duration.parse("30 s")
    """Maximum time that a message waits before it is written to the log file, with durability `memory`."""
    enforce_fsync: bool = True
    """Sync to the device in the background, with durability `os`, so that a power failure loses few messages."""
    sync_interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 day"))] = Duration.parse("1 s")
    """Maximum time that written messages, or offsets stored by polls (with any durability), wait for a sync."""
    sync_size: Annotated[Size, Between(Size.parse("4 KiB"), Size.parse("1 TiB"))] = Size.parse("64 MiB")
    """Amount of data written to a partition since its last sync that triggers the next one."""


class CleanerConfig(Section):
    """`data_maintenance.messages`: the cleaner, which enforces the retention of topics."""

    cleaner_enabled: bool = True
    """Enforce the message expiry and the maximum size of topics. Whole sealed segments are removed, oldest first; a
    topic with neither keeps everything.
    """
    interval: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse("1 m")
    """Interval between two runs of the cleaner."""
    keep_unread: bool = False
    """Keep messages that the slowest consumer or group of a partition has not read, even if the topic exceeds its
    expiry or maximum size. A consumer that is never deleted and no longer reads then keeps everything.
    """


class DataMaintenanceConfig(Section):
    """`data_maintenance`."""

    messages: CleanerConfig = CleanerConfig()


class RuntimeConfig(Section):
    """`runtime`."""

    driver: Driver = "auto"
    """I/O driver of the shards: `uring` (io_uring), `poll` (epoll and worker threads, for hosts that block io_uring),
    or `auto`: io_uring if available, otherwise `poll`.
    """


class ShardsConfig(Section):
    """All settings of the shards of a process."""

    durability: Durability = "os"
    """Guarantee that the acknowledgement of a batch gives, for topics that set none: `memory` (queued; lost with the
    process), `os` (written to the operating system; survives a crash of the process), `fsync` (synced to the device;
    survives a power failure).
    """
    runtime: RuntimeConfig = RuntimeConfig()
    system: StorageConfig = StorageConfig()
    message_saver: MessageSaverConfig = MessageSaverConfig()
    data_maintenance: DataMaintenanceConfig = DataMaintenanceConfig()
