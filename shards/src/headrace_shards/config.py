"""Settings of the shards: where and how they store messages, and what they may use."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from headrace_settings import Between, Duration, MultipleOf, Section, Size

Durability = Literal["memory", "os", "fsync"]
Driver = Literal["auto", "uring", "poll"]

_CPU_ALLOCATION = re.compile(
    r"all|[1-9][0-9]*|[0-9]+\.\.[0-9]+"
    r"|numa:(auto|nodes=[0-9]+(,[0-9]+)*(;cores=[0-9]+)?(;no_ht=(true|false))?)"
)


def _cpu_allocation(text: str) -> str:
    # Only the form is checked here: which CPUs and nodes there are is known when the threads are started.
    if not _CPU_ALLOCATION.fullmatch(text):
        raise ValueError(
            f"{text!r} is none of: all, a number of cores, a range such as 0..4 (end exclusive), numa:auto, "
            "numa:nodes=0,1 with optional ;cores=4 and ;no_ht=true"
        )
    start, dots, end = text.partition("..")
    if dots and int(start) >= int(end):
        raise ValueError(f"the range {text} is empty: its end is exclusive")
    return text


class SegmentConfig(Section):
    """`system.segment`."""

    size: Annotated[Size, Between(Size.parse("4 KiB"), Size.parse("1 GiB")), MultipleOf(512)] = Size.parse("1 GiB")
    """A segment that has reached this size is sealed and the next one is opened; the batch that
    reaches it stays whole."""
    cache_indexes: Literal["all", "open_segment", "none"] = "open_segment"
    """Whose index entries stay in memory."""


class PartitionConfig(Section):
    """`system.partition`."""

    messages_required_to_save: Annotated[int, Between(1, 10_000_000)] = 1024
    """With durability `memory`: written when this many messages wait."""
    size_of_messages_required_to_save: Annotated[Size, Between(Size(1), Size.parse("1 GiB"))] = Size.parse("1 MiB")
    """With durability `memory`: written when this many bytes wait."""
    tail_cache_size: Annotated[Size, Between(high=Size.parse("1 GiB"))] = Size.parse("16 MiB")
    """How much of the recently written log each partition may keep in memory, so that consumers near the
    end are served from there. All partitions together keep at most half of the memory pool, and less when
    memory is short."""
    max_consumers: Annotated[int, Between(1, 1_000_000)] = 100_000
    """How many consumers may have a stored offset in one partition; one more is refused (status 20003). Consumer
    groups do not count."""
    verified_for: Annotated[Duration, Between(Duration.parse("0 s"), Duration.parse("1 day"))] = Duration.parse("1 m")
    """Messages that were read from a file and found undamaged are not verified again for so long, so that consumers
    which follow each other share the work. `0 s` verifies with every read."""


class MemoryPoolConfig(Section):
    """`system.memory_pool`."""

    size: Annotated[Size, MultipleOf(4096), Between(Size.parse("16 MiB"), Size.parse("16 TiB"))] = Size.parse("4 GiB")
    """What the buffers of all shards may hold together. It is a bound, not a reservation: beyond it requests
    wait. A batch is at most half of it, and large requests of one user that are not answered yet have no more
    than that together."""
    small: bool = False
    """Permit a size below 512 MiB, for a server embedded in a test or a notebook."""
    idle_time: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 day"))] = Duration.parse("10 s")
    """Large buffers go back to the system when nobody has needed them for so long, at the latest after twice
    the time."""

    @model_validator(mode="after")
    def _small_pools_are_deliberate(self) -> Self:
        minimum = Size.parse("512 MiB")
        if self.size < minimum and not self.small:
            raise ValueError(f"size = {self.size} is less than {minimum}; small = true permits it")
        return self


class ShardingConfig(Section):
    """`system.sharding`."""

    cpu_allocation: Annotated[str, AfterValidator(_cpu_allocation)] = "numa:auto"
    """One shard per core, each pinned to its own: `all`, a number of cores, a range such as `5..8` (end
    exclusive), `numa:auto` (one per physical core of every node), or `numa:nodes=0,1;cores=4;no_ht=true`."""


class StorageConfig(Section):
    """`system`."""

    path: str = "local_data"
    """The data folder. One server at a time uses it."""
    segment: SegmentConfig = SegmentConfig()
    partition: PartitionConfig = PartitionConfig()
    memory_pool: MemoryPoolConfig = MemoryPoolConfig()
    sharding: ShardingConfig = ShardingConfig()


class MessageSaverConfig(Section):
    """`message_saver`: what happens in the background to messages that no threshold has moved on yet."""

    interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 day"))] = Duration.parse("30 s")
    """With durability `memory`: written when a message has waited this long."""
    enforce_fsync: bool = True
    """With durability `os`: sync to the device as well, so that a loss of power costs little."""
    sync_interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 day"))] = Duration.parse("1 s")
    """Synced when written messages, or offsets that polls have stored (at any durability), have waited this long."""
    sync_size: Annotated[Size, Between(Size.parse("4 KiB"), Size.parse("1 TiB"))] = Size.parse("64 MiB")
    """Synced when this much was written to a partition since the last time."""


class CleanerConfig(Section):
    """`data_maintenance.messages`: the cleaner, which removes what topics do not want to keep."""

    cleaner_enabled: bool = True
    """Carry out the expiry and the maximum size of topics. Whole sealed segments are removed, oldest first; a
    topic without either keeps everything."""
    interval: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse("1 m")
    """The cleaner looks at the topics this often."""
    keep_unread: bool = False
    """Keep messages that the consumer or group furthest behind in a partition has not read, even if the topic
    gets too old or too large by that. A forgotten consumer then keeps everything."""


class DataMaintenanceConfig(Section):
    """`data_maintenance`."""

    messages: CleanerConfig = CleanerConfig()


class RuntimeConfig(Section):
    """`runtime`."""

    driver: Driver = "auto"
    """How the shards do input and output: `uring` (io_uring), `poll` (epoll and worker threads, for hosts that
    block io_uring), or `auto`: io_uring where it can be set up."""


class ShardsConfig(Section):
    """Everything that the shards of a process can be told."""

    durability: Durability = "os"
    """What the acknowledgement of a produced batch promises, for topics that do not say otherwise: `memory`
    (queued; lost with the process), `os` (written to the operating system; survives the death of the
    process), `fsync` (synced to the device; survives the loss of power)."""
    runtime: RuntimeConfig = RuntimeConfig()
    system: StorageConfig = StorageConfig()
    message_saver: MessageSaverConfig = MessageSaverConfig()
    data_maintenance: DataMaintenanceConfig = DataMaintenanceConfig()
