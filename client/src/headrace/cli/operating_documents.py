"""Documents of the commands that operate servers: `cluster`, `metadata`, `bench`.

docs/schemas has the JSON schemas, which are generated from the types here. A field is never removed or renamed.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class NodeDocument(TypedDict):
    """A partition node of `cluster status`."""

    name: str
    address: str
    """Address of the binary protocol; empty if it is not served."""
    state: Literal["live", "draining", "unreachable", "silent"]
    """`silent`: the cluster receives no heartbeats; `unreachable`: the gateway has no connection."""
    shards_count: int
    partitions_count: int
    """Number of partitions that the node leads."""


class FileFinding(TypedDict):
    """A finding of `fsck` about one place of a file."""

    path: str
    """Relative to the data directory."""
    kind: str
    """`damaged`, `missing` or `foreign`; `torn` and `set_aside` are no problems."""
    position: int | None
    """Position of the first byte; None if the place is not known."""
    bytes: int | None
    offset: int | None
    """Offset of the first message affected; None if no messages are."""
    messages_count: int | None
    repaired: bool
    explanation: str


class FilesDocument(TypedDict):
    """The files of a data directory: `fsck`."""

    directory: str
    partitions_count: int
    messages_count: int
    """Number of intact messages."""
    bytes: int
    """Number of bytes compared with their checksums."""
    problems_count: int
    """Number of findings that are problems and were not repaired."""
    findings: list[FileFinding]


class ReplicaDocument(TypedDict):
    """A replica of the metadata service in `cluster status`. Numbers are None if it did not answer."""

    address: str
    """Empty if the replica is in the process of the server."""
    state: Literal["primary", "backup", "view change", "recovering", "halted", "no answer", "unknown"]
    view: int | None
    commit: int | None
    applied: int | None
    release: str | None
    is_storage_full: bool


class ClusterDocument(TypedDict):
    """A cluster as one of its gateways sees it: `cluster status`."""

    name: str
    kind: Literal["embedded", "gateway"]
    process_name: str
    release: str
    unready: str | None
    """Reason why clients should use another gateway; None: ready."""
    catalog_version: int
    catalog_age_seconds: float | None
    nodes: list[NodeDocument]
    replicas: list[ReplicaDocument]
    problems: list[str]
    """Failures and their consequences; empty: all is well."""


class ReplicaStatusDocument(TypedDict):
    """A replica of `metadata status`. All fields but the first and the state are None if it does not answer."""

    address: str
    cluster: str | None
    cluster_id: str | None
    replica: int | None
    state: str
    view: int | None
    primary: int | None
    """Replica that is the primary; None as well while there is none."""
    op: int | None
    commit: int | None
    applied: int | None
    checkpoint: int | None
    version: int | None
    """Version of the catalog."""
    release: str | None
    storage: Literal["ok", "full"] | None
    started_at_micros: int | None
    started_at: str | None


class MetadataMemberDocument(TypedDict):
    """A member of `metadata members`."""

    replica: int
    address: str
    connected: bool
    primary: bool


class MetadataNodeDocument(TypedDict):
    """A partition node of `metadata nodes`."""

    id: int
    name: str
    binary_address: str
    grpc_address: str
    shards: int
    status: str
    replicas_count: int
    """Number of replicas of partitions on the node."""
    primaries_count: int
    """Number of partitions that the node leads."""
    leaving_count: int
    """Number of replicas that are to leave the node."""
    lease_until_micros: int


class LogEntryDocument(TypedDict):
    """A command of `metadata log`."""

    number: int
    timestamp_micros: int
    actor_user_id: int
    operation: str
    status: int
    """Status code of the result; 0: the command has taken effect."""
    version: int
    """Version of the catalog after the command."""


class JournalRecordDocument(TypedDict):
    """An entry of the journal: `metadata log --directory`."""

    op: int
    view: int
    timestamp_ns: int
    operation: str
    commands: int
    bytes: int
    verdict: str


class LatencyDocument(TypedDict):
    """Latencies of requests; all are 0 if the count is."""

    count: int
    mean_micros: float
    min_micros: float
    p50_micros: float
    p90_micros: float
    p95_micros: float
    p99_micros: float
    p99_9_micros: float
    p99_99_micros: float
    max_micros: float


class ActorDocument(TypedDict):
    """Results of one producer or consumer."""

    index: int
    partition_id: int | None
    """Partition that it sends to or reads; None if the server chooses."""
    started_after_seconds: float
    seconds: float
    requests: int
    empty_polls: int
    messages: int
    payload_bytes: int
    payload_mb_per_second: float
    messages_per_second: float
    latency: LatencyDocument


class ActorsDocument(TypedDict):
    """Results of all producers, or of all consumers. MB are powers of ten."""

    requests: int
    empty_polls: int
    messages: int
    payload_bytes: int
    message_bytes: int
    """Bytes of messages with their headers."""
    wall_seconds: float
    payload_mb_per_second: float
    messages_per_second: float
    sum_of_actors_mb_per_second: float
    latency: LatencyDocument
    latency_from_due: LatencyDocument | None
    """Latency from the moment at which each batch was due; None without a rate limit."""
    actors: list[ActorDocument]


class CpuDocument(TypedDict):
    """CPU time of processes during the measurement."""

    user_seconds: float
    system_seconds: float
    total_seconds: float
    cores: float
    """Average number of busy cores."""
    seconds_per_gb: float | None


class BenchDocument(TypedDict):
    """One measurement of `bench`."""

    config: dict[str, Any]
    """Settings of the run, without secrets."""
    partitions_count: int
    stopped: bool
    """True if it was stopped early."""
    producers: ActorsDocument | None
    consumers: ActorsDocument | None
    server_cpu: CpuDocument | None
    """None if the process of the server is not known."""
    client_cpu: CpuDocument | None


class ComparisonDocument(TypedDict):
    """The measurement and that of a listener which discards its input: `bench --baseline null`."""

    server: BenchDocument
    null: BenchDocument
