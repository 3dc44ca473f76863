"""Settings that every connector has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from headrace.sdk.address import address_of
from headrace.sdk.errors import InvalidArgument
from headrace_connectors.pipeline_file.grammar import ANY, Pattern
from headrace_settings import Address, Between, Duration, Expiry, Secret, Section, Size, SizeLimit

_Count = Annotated[int, Between(1, 1_000_000)]
_NAME_BYTES_MAX: Final = 255
_Delay = Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 day"))]


def _topic_name(name: str) -> str:
    if not 0 < len(name.encode()) <= _NAME_BYTES_MAX:
        raise ValueError(
            f"a name of a stream or a topic has 1 to {_NAME_BYTES_MAX} bytes, and not {len(name.encode())}"
        )
    return name


_TopicName = Annotated[str, AfterValidator(_topic_name)]


def _key(name: str) -> str:
    if not name or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise ValueError(f'{name!r} is not a name of letters, digits, ".", "_" and "-"')
    return name


class TopicDefaults(Section):
    """`topic_defaults`: topics that the connector creates."""

    create: bool = True
    """Create streams and topics that do not exist; otherwise their records are refused as `unknown`."""
    partitions_count: Annotated[int, Between(1, 1000)] = 1
    """Number of partitions."""
    message_expiry: Expiry = Expiry.parse("server_default")
    """Time after which messages are removed."""
    max_size: SizeLimit | None = None
    """Maximum size of a topic; the server's default if not set."""


class EntryDefaults(Section):
    """`topic_defaults` of an entry of `routing.by_table` or `admission.allow`: in place of those of the connector."""

    create: bool | None = None
    """Create the topic if it does not exist."""
    partitions_count: Annotated[int, Between(1, 1000)] | None = None
    """Number of partitions."""
    message_expiry: Expiry | None = None
    """Time after which messages are removed."""
    max_size: SizeLimit | None = None
    """Maximum size of the topic."""

    def over(self, defaults: TopicDefaults) -> TopicDefaults:
        """Return defaults with the settings of this entry in place of theirs."""
        given = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        return defaults.model_copy(update=given)


class TableDestination(Section):
    """A destination in a mapping, or the default of one."""

    stream: _TopicName
    """Stream of the topic."""
    topic: _TopicName
    """Name of the topic."""


class TableEntry(TableDestination):
    """`routing.by_table.NAME`: topic of the records of one table."""

    topic_defaults: EntryDefaults = EntryDefaults()


class AllowedPattern(Pattern):
    """One of `admission.allow`."""

    topic_defaults: EntryDefaults = EntryDefaults()


def _refuse_contradictions(setting: str, entries: Sequence[tuple[str, TableEntry | AllowedPattern]]) -> None:
    """Refuse two entries of one destination with other topic defaults.

    Raises:
        ValueError: There are two, and it would depend on their order which one counts.
    """
    seen: dict[tuple[str, str], tuple[str, EntryDefaults]] = {}
    for name, entry in entries:
        if entry.topic_defaults == EntryDefaults():
            continue
        place = (entry.stream, entry.topic)
        before, defaults = seen.setdefault(place, (name, entry.topic_defaults))
        if defaults != entry.topic_defaults:
            raise ValueError(
                f"{setting}: {before} and {name} have different topic_defaults for {'/'.join(place)}: keep those of one"
            )


class Routing(Section):
    """`routing`: destination of each record, from its columns or its table.

    It and a transform that routes exclude each other.
    """

    stream_column: str | None = None
    """Column with the stream."""
    topic_column: str | None = None
    """Column with the topic."""
    partition_key_column: str | None = None
    """Column with the partition key; for records without a value the server chooses the partition."""
    partition_key_encoding: Literal["bytes", "key_u32", "partition_id"] = "bytes"
    """Use of the key: its text, or a number of 32 bits, is hashed, or it is the id of the partition itself."""
    strip_routing_columns: bool = False
    """Remove these columns from the payload."""
    by_table: Mapping[str, TableEntry] = Field(default_factory=dict)
    """Destination for each table, as `schema.table`; `topic_defaults` of an entry replace those of the connector."""
    default_stream: _TopicName | None = None
    """Stream of records without one."""
    default_topic: _TopicName | None = None
    """Topic of records without one."""

    @model_validator(mode="after")
    def _every_record_has_a_place(self) -> Self:
        for name in ("stream", "topic"):
            if getattr(self, f"{name}_column") is not None and getattr(self, f"default_{name}") is None:
                raise ValueError(
                    f"{name}_column needs default_{name}: otherwise records without a value would have no place to go"
                )
        if self.topic_column is None and not self.by_table and self.default_topic is None:
            raise ValueError("names no topic: set topic_column, by_table or default_topic")
        if self.topic_column is not None and self.by_table:
            raise ValueError("topic_column and by_table exclude each other: keep one of them")
        _refuse_contradictions("by_table", list(self.by_table.items()))
        if self.stream_column is None and self.topic_column is not None and self.default_stream is None:
            raise ValueError("topic_column needs a stream: set stream_column or default_stream")
        return self


class CircuitBreaker(Section):
    """`circuit_breaker`: refusal of a destination that keeps failing, so that others are not held up."""

    failure_threshold: _Count = 5
    """Consecutive failures of a destination after which its records are refused."""
    cool_down: _Delay = Duration.parse("30 s")
    """Time until one attempt is made again."""


class Admission(Section):
    """`admission`: destinations that records may have. It applies to connectors with routing."""

    mode: Literal["open", "allowlist", "denylist"] = "open"
    """Destinations that are allowed: all, those of `allow`, or all but those of `deny`."""
    allow: tuple[AllowedPattern, ...] = ()
    """Allowed destinations, as `{ stream = "shop", topic = "*" }`; `topic_defaults` of an entry replace those of the
    connector, for topics that it matches. A name comes before `*`, and an earlier entry before a later one.
    """
    deny: tuple[Pattern, ...] = ()
    """Denied destinations, in the same form."""
    max_destinations: Annotated[int, Between(1, 100_000)] = 256
    """Maximum number of destinations in one run; records for further ones are refused."""
    on_missing_destination: Literal["default", "drop", "error"] = "error"
    """Treatment of records without a destination after the transforms: they go to `stream` and `topic` of the
    connector, are dropped, or stop it.
    """
    on_admission_failure: Literal["error", "drop"] | None = None
    """Treatment of refused and invalid records: they hold up the connector until they are admitted, or they are
    dropped. Not set: `error` for tables and logs of changes, which are read on after a dropped record, and `drop` for
    sources such as webhooks, except that callers are to send again what is for a topic that fails now.
    """
    startup_prewarm_deadline: _Delay = Duration.parse("1 min")
    """Time for creating the destinations that `allow` names, at the start; after it the connector starts without."""

    @model_validator(mode="after")
    def _lists_fit_the_mode(self) -> Self:
        for mode, name, patterns in (("allowlist", "allow", self.allow), ("denylist", "deny", self.deny)):
            if self.mode == mode and not patterns:
                raise ValueError(f'mode = "{mode}" needs {name}')
            if self.mode != mode and patterns:
                raise ValueError(f'{name} has no effect with mode = "{self.mode}": set mode = "{mode}", or remove it')
        _refuse_contradictions("allow", [(f"entry {number}", one) for number, one in enumerate(self.allow, 1)])
        return self

    def entry(self, stream: str, topic: str) -> AllowedPattern | None:
        """Return the entry of `allow` whose topic defaults count for a destination."""
        matching = (one for one in self.allow if one.matches(stream, topic))
        return min(matching, key=lambda one: (one.stream, one.topic).count(ANY), default=None)


class RetrySettings(Section):
    """`delivery` of a sink: reactions to failures."""

    backoff_min: _Delay = Duration.parse("200 ms")
    """Pause after a failure; doubled with each further one."""
    backoff_max: _Delay = Duration.parse("30 s")
    """Longest pause after a failure."""
    commit_failure_threshold: _Count = 16
    """Consecutive failures after which the connector is `degraded`."""
    commit_stop_grace: _Delay = Duration.parse("30 s")
    """Time that a commit in progress gets to finish when the connector is stopped."""

    @model_validator(mode="after")
    def _pauses_grow(self) -> Self:
        if self.backoff_min > self.backoff_max:
            raise ValueError(f"backoff_min = {self.backoff_min} is longer than backoff_max = {self.backoff_max}")
        return self


class DeliverySettings(RetrySettings):
    """`delivery` of a source: sending of records, and commits."""

    max_concurrent_destinations: Annotated[int, Between(1, 1024)] = 16
    """Maximum number of destinations that are sent to at a time; 1 keeps the order across topics."""
    timeout: _Delay = Duration.parse("30 s")
    """Time for the answer of the server to the records of one destination."""
    batches_in_flight: Annotated[int, Between(1, 1000)] = 1
    """Maximum number of batches that are polled and not committed yet; commits follow in the order of the batches. More
    than 1 is for sources that can be polled ahead, and needs as much more memory.
    """
    linger: Annotated[Duration, Between(Duration.parse("0 s"), Duration.parse("1 s"))] = Duration.parse("0 s")
    """Longest time for which the records of a batch wait for those of others that go to the same topic, to be sent with
    them. Records that come while others are on their way are sent together in any case. It needs batches_in_flight.
    """
    guarantee: Literal["at_least_once", "exactly_once"] = "at_least_once"
    """After a crash records of the last batch may be in their topics twice, or never are: each batch is a transaction.
    """
    transaction: str | None = None
    """Name of these transactions at the server; `connector-` and the name of the source if not set."""
    stage_lifetime: Annotated[Duration, Between(Duration.parse("1 min"), Duration.parse("7 days"))] = Duration.parse(
        "1 day"
    )
    """Time within which a batch has to be committed; sources whose batches go to several streams have to be started
    again within it after a crash.
    """

    @model_validator(mode="after")
    def _transactions_are_used(self) -> Self:
        if self.transaction is not None and self.guarantee == "at_least_once":
            raise ValueError('transaction has no effect with guarantee = "at_least_once": remove it')
        return self

    @model_validator(mode="after")
    def _others_can_come(self) -> Self:
        if self.linger.seconds and self.batches_in_flight == 1:
            raise ValueError("linger waits for other batches: set batches_in_flight to more than 1, or remove it")
        if self.linger.seconds and self.guarantee == "exactly_once":
            raise ValueError('linger has no effect with guarantee = "exactly_once", which stages each batch: remove it')
        return self

    @model_validator(mode="after")
    def _order_is_kept(self) -> Self:
        if self.batches_in_flight > 1 and self.max_concurrent_destinations == 1:
            raise ValueError(
                "max_concurrent_destinations = 1 keeps the order across topics, and batches_in_flight = "
                f"{self.batches_in_flight} keeps that of each topic alone: remove one of them"
            )
        return self


class ConnectorSettings(Section):
    """Settings that sources and sinks share."""

    plugin: Annotated[str, AfterValidator(_key)]
    """Name of the plugin."""
    enabled: bool = True
    """Start the connector."""
    codec: Annotated[str, AfterValidator(_key)] = "json"
    """Form of the payloads in topics."""
    isolation: Literal["task", "process"] = "task"
    """Run the connector with the others, or in a process of its own: for plugins that need a processor for themselves,
    or are not trusted to leave the others alone.
    """
    environment: tuple[str, ...] = ()
    """Names of variables of the environment that a process of its own has besides those that programs usually need, for
    libraries that read them, such as `AWS_*`; `*` at the end of a name stands for any rest.
    """


class SourceSettings(ConnectorSettings):
    """`sources.KEY`: a source."""

    stream: _TopicName | None = None
    """Stream of the topic that it writes to."""
    topic: _TopicName | None = None
    """The topic; with routing, the one of records without a destination."""
    routing: Routing | None = None
    topic_defaults: TopicDefaults = TopicDefaults()
    admission: Admission = Admission()
    circuit_breaker: CircuitBreaker = CircuitBreaker()
    delivery: DeliverySettings = DeliverySettings()

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        if (self.stream is None) != (self.topic is None):
            raise ValueError("stream and topic belong together: set both")
        routing = self.routing
        if routing is not None and routing.partition_key_encoding == "partition_id":
            if routing.partition_key_column is None:
                raise ValueError('routing.partition_key_encoding = "partition_id" needs routing.partition_key_column')
            self._check_partition_ids(routing)
        if self.admission.on_missing_destination == "default" and self.stream is None:
            raise ValueError('admission.on_missing_destination = "default" needs stream and topic')
        return self

    def _check_partition_ids(self, routing: Routing) -> None:
        entries: dict[str, TableEntry | AllowedPattern] = {
            **{f"routing.by_table.{name}": one for name, one in routing.by_table.items()},
            **{f"entry {number} of admission.allow": one for number, one in enumerate(self.admission.allow, 1)},
        }
        counts = {name: count for name, one in entries.items() if (count := one.topic_defaults.partitions_count)}
        if self.topic_defaults.partitions_count < 2 and not counts:
            raise ValueError(
                'routing.partition_key_encoding = "partition_id" needs topic_defaults.partitions_count of at least '
                "2: with one partition there is nothing to choose"
            )
        if single := next((name for name, count in counts.items() if count < 2), None):
            raise ValueError(
                f'routing.partition_key_encoding = "partition_id" has nothing to choose with one partition: set '
                f"topic_defaults.partitions_count of {single} to at least 2, or remove it"
            )

    def defaults_of(self, stream: str, topic: str) -> TopicDefaults:
        """Return the properties of a topic that the source creates.

        Those of an entry of `by_table` come before those of an entry of `allow`, and both before those of the source.
        """
        defaults = self.topic_defaults
        if (allowed := self.admission.entry(stream, topic)) is not None:
            defaults = allowed.topic_defaults.over(defaults)
        tables = self.routing.by_table.values() if self.routing is not None else ()
        for entry in tables:
            if (entry.stream, entry.topic) == (stream, topic):
                defaults = entry.topic_defaults.over(defaults)
        return defaults


class TopicName(Section):
    """One of `topics`: a topic that a sink reads."""

    stream: _TopicName
    """Stream of the topic."""
    topic: _TopicName
    """The topic."""


class SinkSettings(ConnectorSettings):
    """`sinks.KEY`: a sink."""

    stream: _TopicName | None = None
    """Stream of the topic that it reads."""
    topic: _TopicName | None = None
    """The topic that it reads."""
    topics: tuple[TopicName, ...] = ()
    """Topics that it reads, as `{ stream = "shop", topic = "orders" }`, in place of `stream` and `topic`."""
    group: str | None = None
    """Consumer group, whose members share the partitions; the name of the sink if not set."""
    start: Literal["first", "end"] = "first"
    """Place where reading begins in partitions without a stored offset."""
    batch_size: Annotated[int, Between(1, 100_000)] = 1000
    """Number of messages that are written without waiting for more; a batch has at most twice as many."""
    linger: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 hour"))] = Duration.parse("200 ms")
    """Longest time that a message waits for others."""
    max_decoded: Annotated[Size, Between(Size.parse("1 MiB"), Size.parse("64 GiB"))] = Size.parse("128 MiB")
    """Maximum memory for the payload of a message when it is decoded, about: a message that would take more is invalid.
    Messages are decoded as many at a time as fit into it.
    """
    on_invalid: Literal["dead_letter", "drop", "error"] = "dead_letter"
    """Treatment of a message that cannot be decoded, transformed or written: it goes to the dead-letter topic, is
    dropped and counted, or stops the sink.
    """
    dead_letter_topic: _TopicName | None = None
    """Dead-letter topic, in the stream of the message; the name of its topic with `-dead` at the end if not set."""
    delivery: RetrySettings = RetrySettings()

    @model_validator(mode="after")
    def _reads_topics_once(self) -> Self:
        if (self.stream is None) != (self.topic is None):
            raise ValueError("stream and topic belong together: set both")
        if (self.stream is None) == (not self.topics):
            raise ValueError("names its topics once: set stream and topic, or topics")
        names = [(one.stream, one.topic) for one in self.topics]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"topics names {'/'.join(repeated)} twice: remove one of them")
        if self.dead_letter_topic is not None and self.on_invalid != "dead_letter":
            raise ValueError(f'dead_letter_topic has no effect with on_invalid = "{self.on_invalid}": remove it')
        return self

    @property
    def sources(self) -> tuple[TopicName, ...]:
        """The topics that it reads, however they are named."""
        if self.stream is None or self.topic is None:
            return self.topics
        return (TopicName(stream=self.stream, topic=self.topic),)


class ServerSettings(Section):
    """`server`: the Headrace server or cluster."""

    url: str = "headrace://127.0.0.1:8090"
    """Address, as of `headrace.connect`."""
    username: str | None = None
    """User of the connectors; their permissions limit what records can reach."""
    password: Secret | None = None
    """Password of the user."""
    token: Secret | None = None
    """Personal access token, in place of a user and a password."""
    timeout: _Delay = Duration.parse("10 s")
    """Time for the answer to a request; for messages see `delivery.timeout`."""

    @field_validator("url")
    @classmethod
    def _url_is_an_address(cls, url: str) -> str:
        try:
            # Credentials may come from elsewhere.
            address_of(url, username="-", password="-", environment={})  # noqa: S106 - no password
        except InvalidArgument as error:
            raise ValueError(str(error).removeprefix("url: ")) from None
        return url

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together: set both, or a token")
        if self.token is not None and self.username is not None:
            raise ValueError("a token replaces username and password: set one of them")
        return self


class ConfigurationSettings(Section):
    """`http.configuration`: changes of connectors and mappings over HTTP."""

    enabled: bool = False
    """Accept changes. They need a token on loopback, too, since they can make the process read and send anything."""
    variables: tuple[str, ...] = ()
    """Names of variables of the environment that changes may refer to as `${NAME}`; `*` at the end of a name stands for
    any rest, and `KEY:NAME` is for changes of one connector. A connector may also use those that its own table in the
    pipeline file refers to.
    """
    destinations: tuple[str, ...] = ()
    """Hosts that a `url` in changes may name, such as `db.example` or `*.example`; empty: any. They decide where a
    connector, and the secrets that it may use, can be sent to.
    """
    secrets_directory: str | None = None
    """Directory with the files that changes may name as `x_file`: those of a connector are in the directory with its
    key as the name. A connector may also use those that its own table in the pipeline file names there. Not set: none.
    """
    plugins: tuple[str, ...] = ()
    """Names of plugins that changes may use although they run code or use files of the machine, such as `python`,
    `files`, `parquet`, `sqlite`, `delta`, and the codecs `protobuf` and `avro`. All others are allowed.
    """


class HttpSettings(Section):
    """`http`: status, configuration, mappings and metrics."""

    address: Address | None = Address.parse("127.0.0.1:8120")
    """Address to listen on; port 0 picks a free port."""
    token: Secret | None = None
    """Bearer token of callers; needed beyond loopback, with 16 bytes at least."""
    metrics_token: Secret | None = None
    """Bearer token that opens the metrics alone, for Prometheus; `token` opens them, too. Beyond loopback, it has 16
    bytes at least.
    """
    configuration: ConfigurationSettings = ConfigurationSettings()

    @model_validator(mode="after")
    def _is_closed_beyond_loopback(self) -> Self:
        if self.configuration.enabled and (self.token is None or self.address is None):
            raise ValueError("configuration.enabled = true needs address and token: callers that can change connectors")
        if self.address is not None and not self.address.ip.is_loopback and self.token is None:
            raise ValueError(f"address = {self.address} is not loopback: token is needed")
        if self.address is not None and not self.address.ip.is_loopback:
            for name, token in (("token", self.token), ("metrics_token", self.metrics_token)):
                if token is not None and token.is_guessable:
                    raise ValueError(f"address = {self.address} is not loopback: {name} has 16 bytes at least")
        if self.metrics_token is not None and self.token is None:
            raise ValueError("metrics_token has no effect without token: set it as well, or remove metrics_token")
        return self


class RuntimeSettings(Section):
    """`runtime`: the process."""

    state_directory: str = "local_connectors"
    """Directory with what connectors remember, used by one process at a time."""
    stop_timeout: _Delay = Duration.parse("40 s")
    """Time that connectors get to finish when the process is asked to stop."""


class StateSettings(Section):
    """`state`: what sources remember."""

    kind: Literal["file", "topic"] | None = None
    """Place of the states: files in `runtime.state_directory`, or the topic of the group. Not set: the topic if
    `sharing.group` is set.
    """


class SharingSettings(Section):
    """`sharing`: several processes share the connectors of this file, and each connector runs in one of them."""

    group: Annotated[str, AfterValidator(_key)] | None = None
    """Name of the group, the same in all its processes. Not set: this process runs everything alone."""
    stream: _TopicName = "headrace-connectors"
    """Stream with the topic of the group, which has leases and states. Both are created if they are missing."""
    lease: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("10 min"))] = Duration.parse("6 s")
    """Time without a sign of life after which other processes run the connectors of a process."""
