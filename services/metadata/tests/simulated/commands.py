"""Commands of simulated clients: derived from a random word, and mostly aimed at existing objects.

Few names and ids are in use, so that commands often refer to each other's results. Completing a revocation requires
knowledge of the current ones: clients read it from the newest state, as callers of the service do.
"""

from random import Random

from headrace_metadata.state_machine import StateMachine
from headrace_proto.catalog.v1 import (
    COMPRESSION_ALGORITHM_NONE,
    USER_STATUS_ACTIVE,
    USER_STATUS_INACTIVE,
    GlobalPermissions,
    Partition,
    Permissions,
    Quota,
    StreamPermissions,
    Topic,
    TopicPermissions,
)
from headrace_proto.metadata.v1 import (
    AbortTransaction,
    AppliedPublications,
    ChangePassword,
    Command,
    CommitTransaction,
    CompletedPlacement,
    CompletedRevocation,
    CompletePlacements,
    CompleteRevocation,
    CreateAccessToken,
    CreateConsumerGroup,
    CreatePartitions,
    CreateStream,
    CreateTopic,
    CreateUser,
    DeleteAccessToken,
    DeleteConsumerGroup,
    DeleteExpiredAccessTokens,
    DeletePartitions,
    DeleteStream,
    DeleteTopic,
    DeleteTransaction,
    DeleteUser,
    DrainNode,
    ForgetClient,
    Gateway,
    GatewayHeartbeat,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    PinReader,
    PlacePartition,
    PublicationsApplied,
    Pulse,
    PurgeStream,
    PurgeTopic,
    RebalanceTopic,
    RegisterNode,
    RemoveNode,
    RenewNodeLease,
    ReplaceGateway,
    RevokeLogin,
    SetTopicQuota,
    SetUserQuota,
    StagesOfPartition,
    UnpinReader,
    UpdatePermissions,
    UpdateStream,
    UpdateTopic,
    UpdateUser,
)

NAMES = ("", "north", "east", "south", "west", "centre")
MILLISECOND = 1_000
# Runs of the gateway processes; later runs replace earlier ones.
GATEWAYS = {100: "here", 101: "here", 102: "here", 200: "there", 201: "there"}


class Client:
    """Generator of the next command."""

    def __init__(self, word: int, machine: StateMachine) -> None:
        self.chance = Random(word)
        self.machine = machine

    def number(self, end: int = 4) -> int:
        return self.chance.randrange(end)

    def name(self) -> str:
        return self.chance.choice(NAMES)

    def existing(self, candidates, otherwise):
        """Return mostly an existing candidate, sometimes one that may not exist."""
        found = list(candidates)
        return self.chance.choice(found) if found and self.chance.random() < 0.9 else otherwise

    def stream_id(self) -> int:
        return self.existing((stream.id for stream in self.machine.state.catalog.streams()), self.number())

    def topic(self) -> dict[str, int]:
        catalog = self.machine.state.catalog
        topics = (topic for stream in catalog.streams() for topic in catalog.topics_of(stream.id))
        keys = ((topic.stream_id, topic.id) for topic in topics)
        stream_id, topic_id = self.existing(keys, (self.number(), self.number()))
        return {"stream_id": stream_id, "topic_id": topic_id}

    def group(self) -> dict[str, int]:
        groups = ((group.stream_id, group.topic_id, group.id) for group in self.machine.state.groups.groups())
        stream_id, topic_id, group_id = self.existing(groups, (self.number(), self.number(), self.number()))
        return {"stream_id": stream_id, "topic_id": topic_id, "group_id": group_id}

    def user_id(self) -> int:
        return self.existing((user.id for user in self.machine.state.accounts.users()), self.number(8))

    def gateway(self) -> Gateway:
        gateway_id = self.chance.choice(list(GATEWAYS))
        timeout_micros = self.chance.choice([300, 2_000, 60_000]) * MILLISECOND
        return Gateway(id=gateway_id, name=GATEWAYS[gateway_id], timeout_micros=timeout_micros)

    def permissions(self) -> Permissions | None:
        if self.chance.random() < 0.2:
            return None
        streams = sorted({self.number() for _ in range(self.number(3))})
        return Permissions(
            **{"global": GlobalPermissions(read_streams=self.chance.random() < 0.5)},
            streams=[
                StreamPermissions(
                    stream_id=stream_id,
                    send_messages=True,
                    topics=[
                        TopicPermissions(topic_id=topic_id, poll_messages=True) for topic_id in range(self.number(3))
                    ],
                )
                for stream_id in streams
            ],
        )

    def settings(self) -> dict[str, object]:
        return {
            "name": self.name(),
            "compression": COMPRESSION_ALGORITHM_NONE,
            "message_expiry_micros": self.chance.choice([1_000_000, 2**64 - 1]),
            "max_size_bytes": self.chance.choice([2**30, 2**64 - 1]),
            "replication_factor": self.chance.choice([1, 1, 2, 3]),
        }

    def revocations(self) -> CompleteRevocation:
        """Return the completion of some current revocations, or of one that never existed."""
        groups = self.machine.state.groups.revoking_groups()
        if not groups:
            return CompleteRevocation(**self.group(), group_key=self.number())
        group = self.chance.choice(groups)
        under_way = sorted(
            (revocation.partition_id, revocation.incarnation)
            for member in group.members
            for revocation in member.revocations
        )
        some = sorted(self.chance.sample(under_way, self.chance.randint(1, len(under_way))))
        return CompleteRevocation(
            stream_id=group.stream_id,
            topic_id=group.topic_id,
            group_id=group.id,
            group_key=group.key if self.chance.random() < 0.9 else self.number(),
            revocations=[
                CompletedRevocation(partition_id=partition_id, incarnation=incarnation - (self.chance.random() < 0.1))
                for partition_id, incarnation in some
            ],
        )

    def node(self) -> RegisterNode:
        name = self.chance.choice(NAMES[1:])
        return RegisterNode(
            name=name,
            incarnation=1 + self.number(3),
            binary_address=f"{name}:8100",
            grpc_address=f"{name}:8101",
            shards=1 + self.number(3),
            lease_micros=self.chance.choice([300, 2_000, 60_000]) * MILLISECOND,
        )

    def node_id(self) -> int:
        return self.existing((node.id for node in self.machine.state.nodes.nodes()), self.number(9))

    def renewal(self) -> RenewNodeLease:
        nodes = ((node.id, node.incarnation) for node in self.machine.state.nodes.nodes())
        node_id, incarnation = self.existing(nodes, (self.number(9), 1))
        return RenewNodeLease(node_id=node_id, incarnation=incarnation)

    def completed_placements(self) -> CompletePlacements:
        """Return the completion of current hand-overs in a topic, or of some that never existed."""
        topic = self.topic()
        present = self.machine.state.nodes.placement(topic["stream_id"], topic["topic_id"])
        epochs = [partition.epoch for partition in present.partitions] if present is not None else []
        return CompletePlacements(
            **topic,
            placements=[
                CompletedPlacement(partition_id=partition_id, epoch=epoch)
                for partition_id, epoch in enumerate(epochs)
                if self.chance.random() < 0.8
            ],
        )

    def login(self) -> RevokeLogin:
        expires_in = self.chance.choice([0, 200, 3_000, 3_600_000]) * MILLISECOND
        return RevokeLogin(
            digest=bytes([self.number(20)]) * 16,
            expires_at_micros=self.machine.timestamp_micros + expires_in,
            once=self.chance.random() < 0.5,
        )

    def stages(self, topic: Topic) -> list[StagesOfPartition]:
        """Return mostly fresh stages, sometimes stages named before."""
        records = [*self.machine.state.stages.publications(), *self.machine.state.stages.aborted()]
        known = [stage_id for record in records for stage_id in record.stage_ids]
        return [
            StagesOfPartition(
                topic_id=topic.id,
                partition_id=partition.id,
                partition_incarnation=partition.incarnation - (self.chance.random() < 0.05),
                stage_ids=[
                    self.existing(known, self.stage()) if self.chance.random() < 0.1 else self.stage()
                    for _ in range(self.number(3))
                ],
            )
            for partition in self.chance.sample(list(topic.partitions), min(2, len(topic.partitions)))
        ]

    def stage(self) -> bytes:
        # The last values are expired, or nearly.
        expires_in = self.chance.choice([3_600_000, 3_600_000, 3_600_000, 3_000, 200, -1]) * MILLISECOND
        return max(self.machine.timestamp_micros + expires_in, 0).to_bytes(8, "big") + self.chance.randbytes(8)

    def batch(self) -> dict[str, object]:
        catalog = self.machine.state.catalog
        topics = (topic for stream in catalog.streams() for topic in catalog.topics_of(stream.id))
        nowhere = Topic(
            stream_id=self.number(), id=self.number(), partitions=[Partition(id=self.number(), incarnation=1)]
        )
        topic = self.existing((topic for topic in topics if topic.partitions), nowhere)
        return {
            "stream_id": topic.stream_id,
            "name": self.name(),
            "query_id": self.chance.choice(["first", "second", "third"]),
            "batch_id": self.number(30),
            "stages": self.stages(topic),
        }

    def commit(self) -> CommitTransaction:
        return CommitTransaction(
            **self.batch(),
            fence=self.chance.random() < 0.4,
            is_owned=self.chance.random() < 0.7,
            own_only=self.chance.random() < 0.7,
        )

    def applied(self) -> PublicationsApplied:
        """Return a report for partitions with pending publications, or former ones."""
        pending = list(self.machine.state.stages.publications())
        some = self.chance.sample(pending, min(len(pending), self.number(3)))
        return PublicationsApplied(
            partitions=[
                AppliedPublications(
                    stream_id=record.stream_id,
                    topic_id=record.topic_id,
                    partition_id=record.partition_id,
                    partition_incarnation=record.partition_incarnation - (self.chance.random() < 0.1),
                    number=record.number - (self.chance.random() < 0.1),
                )
                for record in some
            ]
        )

    def pin(self) -> PinReader:
        return PinReader(
            stream_id=self.stream_id(),
            name=self.name(),
            value=self.chance.randbytes(self.number(9)),
            is_owned=self.chance.random() < 0.7,
            own_only=self.chance.random() < 0.7,
        )

    def token(self) -> Command:
        expires_in = self.chance.choice([0, 1, 200, 3_000, 3_600_000]) * MILLISECOND
        return Command(
            actor_user_id=self.user_id(),
            create_access_token=CreateAccessToken(
                name=self.name(),
                digest=self.chance.randbytes(32),
                expires_at_micros=expires_in and self.machine.timestamp_micros + expires_in,
                tokens_per_user_max=self.chance.choice([0, 3]),
            ),
        )

    def join(self) -> Command:
        join = JoinConsumerGroup(**self.group(), gateway=self.gateway(), client_id=self.number(6))
        return Command(actor_user_id=self.user_id(), join_consumer_group=join)

    def leave(self) -> Command:
        groups = self.machine.state.groups.groups()
        members = ((group, member) for group in groups for member in group.members)
        found = self.existing(members, None)
        if found is None:
            leave = LeaveConsumerGroup(**self.group(), gateway_id=100, client_id=self.number(6))
            return Command(leave_consumer_group=leave)
        group, member = found
        leave = LeaveConsumerGroup(
            stream_id=group.stream_id,
            topic_id=group.topic_id,
            group_id=group.id,
            gateway_id=member.gateway_id,
            client_id=member.client_id,
        )
        return Command(leave_consumer_group=leave)


# Relative frequencies of commands within each family.
STREAMS = (
    (6, lambda c: Command(create_stream=CreateStream(name=c.name()))),
    (2, lambda c: Command(update_stream=UpdateStream(stream_id=c.stream_id(), name=c.name()))),
    (1, lambda c: Command(delete_stream=DeleteStream(stream_id=c.stream_id()))),
    (1, lambda c: Command(purge_stream=PurgeStream(stream_id=c.stream_id()))),
)
TOPICS = (
    (
        8,
        lambda c: Command(
            create_topic=CreateTopic(**c.settings(), stream_id=c.stream_id(), partitions_count=c.number(9))
        ),
    ),
    (2, lambda c: Command(update_topic=UpdateTopic(**c.settings(), **c.topic()))),
    (1, lambda c: Command(delete_topic=DeleteTopic(**c.topic()))),
    (1, lambda c: Command(purge_topic=PurgeTopic(**c.topic()))),
    (1, lambda c: Command(set_topic_quota=SetTopicQuota(**c.topic(), quota=Quota(held_bytes=c.number(4))))),
)
PARTITIONS = (
    (3, lambda c: Command(create_partitions=CreatePartitions(**c.topic(), partitions_count=c.number(4)))),
    (2, lambda c: Command(delete_partitions=DeletePartitions(**c.topic(), partitions_count=c.number(4)))),
)
USERS = (
    (
        5,
        lambda c: Command(
            create_user=CreateUser(
                username=c.name(), password_hash="first", status=USER_STATUS_ACTIVE, permissions=c.permissions()
            )
        ),
    ),
    (2, lambda c: Command(update_user=UpdateUser(user_id=c.user_id(), username=c.name()))),
    (1, lambda c: Command(update_user=UpdateUser(user_id=c.user_id(), status=USER_STATUS_INACTIVE))),
    (2, lambda c: Command(delete_user=DeleteUser(user_id=c.user_id()))),
    (3, lambda c: Command(update_permissions=UpdatePermissions(user_id=c.user_id(), permissions=c.permissions()))),
    (1, lambda c: Command(set_user_quota=SetUserQuota(user_id=c.user_id(), quota=Quota(connections=c.number(4))))),
    (2, lambda c: Command(change_password=ChangePassword(user_id=c.user_id(), password_hash=str(c.number(99))))),
)
TOKENS = (
    (5, Client.token),
    (2, lambda c: Command(actor_user_id=c.user_id(), delete_access_token=DeleteAccessToken(name=c.name()))),
    (1, lambda _: Command(delete_expired_access_tokens=DeleteExpiredAccessTokens())),
    (3, lambda c: Command(revoke_login=c.login())),
)
GROUPS = (
    (
        3,
        lambda c: Command(
            create_consumer_group=CreateConsumerGroup(
                **c.topic(),
                name=c.name(),
                revocation_timeout_micros=c.chance.choice([100, 3_000, 30_000]) * MILLISECOND,
                is_owned=c.chance.random() < 0.7,
            )
        ),
    ),
    (1, lambda c: Command(delete_consumer_group=DeleteConsumerGroup(**c.group()))),
)
MEMBERS = (
    (10, Client.join),
    (3, Client.leave),
    (6, lambda c: Command(complete_revocation=c.revocations())),
    (
        1,
        lambda c: Command(
            forget_client=ForgetClient(gateway_id=c.chance.choice(list(GATEWAYS)), client_id=c.number(6))
        ),
    ),
)
TIME = (
    (5, lambda _: Command(pulse=Pulse())),
    (5, lambda c: Command(gateway_heartbeat=GatewayHeartbeat(gateway_id=c.chance.choice(list(GATEWAYS))))),
    (1, lambda c: Command(replace_gateway=ReplaceGateway(gateway_id=c.gateway().id, name=c.gateway().name))),
)
NODES = (
    (5, lambda c: Command(register_node=c.node())),
    (5, lambda c: Command(renew_node_lease=c.renewal())),
    (2, lambda c: Command(drain_node=DrainNode(node_id=c.node_id(), is_draining=c.chance.random() < 0.5))),
    (1, lambda c: Command(remove_node=RemoveNode(node_id=c.node_id(), with_replicas=c.chance.random() < 0.5))),
)
PLACEMENTS = (
    (
        2,
        lambda c: Command(
            place_partition=PlacePartition(
                **c.topic(), partition_id=c.number(3), node_ids=[c.node_id() for _ in range(c.number(3))]
            )
        ),
    ),
    (3, lambda c: Command(rebalance_topic=RebalanceTopic(**c.topic(), partitions_max=c.number(4)))),
    (3, lambda c: Command(complete_placements=c.completed_placements())),
)
TRANSACTIONS = (
    (12, lambda c: Command(commit_transaction=c.commit())),
    (4, lambda c: Command(abort_transaction=AbortTransaction(**c.batch()))),
    (6, lambda c: Command(publications_applied=c.applied())),
    (1, lambda c: Command(delete_transaction=DeleteTransaction(stream_id=c.stream_id(), name=c.name()))),
)
PINS = (
    (3, lambda c: Command(pin_reader=c.pin())),
    (1, lambda c: Command(unpin_reader=UnpinReader(stream_id=c.stream_id(), name=c.name()))),
)
FAMILIES = (
    STREAMS,
    TOPICS,
    PARTITIONS,
    USERS,
    TOKENS,
    GROUPS,
    MEMBERS,
    TIME,
    NODES,
    PLACEMENTS,
    TRANSACTIONS,
    PINS,
)


def draw(run: int, word: int, machine: StateMachine) -> Command:
    """Return the command of a word; some families are left out in some runs, so that the others meet more often."""
    families = [family for place, family in enumerate(FAMILIES) if place < 2 or run >> place & 3]
    client = Client(word, machine)
    family = client.chance.choice(families)
    (make,) = client.chance.choices([make for _, make in family], [weight for weight, _ in family])
    return make(client)
