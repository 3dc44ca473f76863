"""Requests of the gRPC API for the rows of `commands`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.message import Message

from headrace_proto.gateway import v1
from headrace_proto.gateway.v1 import (
    accounts_pb2,
    catalog_pb2,
    login_pb2,
    messages_pb2,
    pipelines_pb2,
    subscriptions_pb2,
    system_pb2,
)
from tests.apis.commands.table import LIMITED, NO_CLIENT
from tests.server_process import USERNAME

Call = tuple[str, Message | tuple[Message, ...]]
"""`Service/Method` and its request; a streaming method receives one request or several."""

ABSENT: Final = {
    "EXPLAIN_REFUSALS": "the details of each refusal explain it",
    "GET_ME": "a call is no connection",
    "GET_SNAPSHOT": "not offered",
    "LEAVE_CONSUMER_GROUP": "a member leaves with its call",
    "PING": "health is asked for with the health service",
    "SET_TRACE_CONTEXT": "the metadata `traceparent` say it",
}
"""Rows without an equivalent in the gRPC API, and the reason."""
NO_COMMANDS: Final = {"Login/Refresh", "Pipelines/DescribeTopics"}
"""Methods without a row, because no other API has an equivalent, or only HTTP does."""


def methods() -> set[str]:
    """`Service/Method` of every method of the gRPC API."""
    files = (accounts_pb2, catalog_pb2, login_pb2, messages_pb2, pipelines_pb2, subscriptions_pb2, system_pb2)
    services = [service for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    return {f"{service.name}/{method.name}" for service in services for method in service.methods}


def calls(*, client_id: int, access_token: str) -> dict[str, Iterable[Call]]:
    """Calls for each row, including alternative calls with the same effect."""
    return {
        name: (found,) if isinstance(found, tuple) else found for name, found in _calls(client_id, access_token).items()
    }


def _calls(client_id: int, access_token: str) -> dict[str, Call | list[Call]]:
    s = {"stream": _named("s")}
    t = {**s, "topic": _named("t")}
    d = {"stream": _named("doomed")}
    dt = {**d, "topic": _named("t")}
    dg = {**dt, "group": _named("g")}
    anonymous = {"user": _named("nobody")}
    new = {"current_password": "wrong", "new_password": "secrets"}
    consumer = {**t, "consumer": v1.Consumer(consumer=v1.Identifier(id=1))}
    batch = v1.ProduceRequest(
        **t, partitioning=v1.Partitioning(partition_id=99), messages=[v1.NewMessage(payload=b"m")]
    )
    return {
        "LOGIN_USER": ("Login/Login", v1.LoginRequest(username=LIMITED, password=LIMITED)),
        "LOGIN_WITH_PERSONAL_ACCESS_TOKEN": (
            "Login/LoginWithAccessToken",
            v1.LoginWithAccessTokenRequest(token=access_token),
        ),
        "LOGOUT_USER": ("Login/Logout", v1.LogoutRequest()),
        "GET_STATS": ("System/GetStatistics", v1.GetStatisticsRequest()),
        "GET_CLUSTER_METADATA": ("System/GetClusterMetadata", v1.GetClusterMetadataRequest()),
        "DISCONNECT_CLIENT": ("System/DisconnectClient", v1.DisconnectClientRequest(client_id=NO_CLIENT)),
        "GET_CLIENTS": ("System/ListClients", v1.ListClientsRequest()),
        "GET_CLIENT": ("System/GetClient", v1.GetClientRequest(client_id=client_id)),
        "GET_USER": ("Accounts/GetUser", v1.GetUserRequest(user=_named(USERNAME))),
        "GET_USER (oneself)": ("Accounts/GetUser", v1.GetUserRequest(user=_named(LIMITED))),
        "GET_USERS": ("Accounts/ListUsers", v1.ListUsersRequest()),
        "CREATE_USER": ("Accounts/CreateUser", v1.CreateUserRequest(username=USERNAME, password="secret")),
        "DELETE_USER": ("Accounts/DeleteUser", v1.DeleteUserRequest(**anonymous)),
        "UPDATE_USER": ("Accounts/UpdateUser", v1.UpdateUserRequest(**anonymous)),
        "UPDATE_PERMISSIONS": ("Accounts/UpdatePermissions", v1.UpdatePermissionsRequest(**anonymous)),
        "CHANGE_PASSWORD (one's own)": (
            "Accounts/ChangePassword",
            v1.ChangePasswordRequest(user=_named(LIMITED), **new),
        ),
        "CHANGE_PASSWORD (another's)": (
            "Accounts/ChangePassword",
            v1.ChangePasswordRequest(user=_named(USERNAME), **new),
        ),
        "GET_PERSONAL_ACCESS_TOKENS": ("Accounts/ListAccessTokens", v1.ListAccessTokensRequest()),
        "CREATE_PERSONAL_ACCESS_TOKEN": ("Accounts/CreateAccessToken", v1.CreateAccessTokenRequest(name=LIMITED)),
        "DELETE_PERSONAL_ACCESS_TOKEN": ("Accounts/DeleteAccessToken", v1.DeleteAccessTokenRequest(name="missing")),
        "GET_STREAMS": ("Catalog/ListStreams", v1.ListStreamsRequest()),
        "GET_STREAM": ("Catalog/GetStream", v1.GetStreamRequest(**s)),
        "CREATE_STREAM": ("Catalog/CreateStream", v1.CreateStreamRequest(name="s")),
        "UPDATE_STREAM": ("Catalog/RenameStream", v1.RenameStreamRequest(**s, name="s")),
        "PURGE_STREAM": ("Catalog/PurgeStream", v1.PurgeStreamRequest(**d)),
        "DELETE_STREAM": ("Catalog/DeleteStream", v1.DeleteStreamRequest(**d)),
        "GET_TOPICS": ("Catalog/ListTopics", v1.ListTopicsRequest(**s)),
        "GET_TOPIC": ("Catalog/GetTopic", v1.GetTopicRequest(**t)),
        "CREATE_TOPIC": (
            "Catalog/CreateTopic",
            v1.CreateTopicRequest(**s, settings=v1.TopicSettings(name="t"), partitions_count=1),
        ),
        "UPDATE_TOPIC": ("Catalog/UpdateTopic", v1.UpdateTopicRequest(**t, settings=v1.TopicSettings(name="t"))),
        "PURGE_TOPIC": ("Catalog/PurgeTopic", v1.PurgeTopicRequest(**dt)),
        "DELETE_TOPIC": ("Catalog/DeleteTopic", v1.DeleteTopicRequest(**dt)),
        "CREATE_PARTITIONS": ("Catalog/CreatePartitions", v1.CreatePartitionsRequest(**dt, partitions_count=1)),
        "DELETE_PARTITIONS": ("Catalog/DeletePartitions", v1.DeletePartitionsRequest(**t, partitions_count=999)),
        "DELETE_SEGMENTS": ("Catalog/DeleteSegments", v1.DeleteSegmentsRequest(**t, segments_count=1)),
        "GET_CONSUMER_GROUPS": ("Catalog/ListConsumerGroups", v1.ListConsumerGroupsRequest(**t)),
        "GET_CONSUMER_GROUP": ("Catalog/GetConsumerGroup", v1.GetConsumerGroupRequest(**t, group=_named("g"))),
        "CREATE_CONSUMER_GROUP": ("Catalog/CreateConsumerGroup", v1.CreateConsumerGroupRequest(**t, name="g")),
        "DELETE_CONSUMER_GROUP": ("Catalog/DeleteConsumerGroup", v1.DeleteConsumerGroupRequest(**dg)),
        "DESCRIBE_PARTITIONS": ("Catalog/GetTopic", v1.GetTopicRequest(**t)),
        "READ_MESSAGES": ("Messages/Poll", v1.PollRequest(**t, start=v1.Start(first=v1.Start.First()))),
        "POLL_MESSAGES": ("Messages/Poll", v1.PollRequest(**t, start=v1.Start(first=v1.Start.First()))),
        "SEND_MESSAGES": [("Messages/Produce", batch), ("Messages/ProduceStream", batch)],
        "GET_QUOTAS": ("Accounts/ListQuotas", v1.ListQuotasRequest()),
        "GET_USER_QUOTA": ("Accounts/GetUserQuota", v1.GetUserQuotaRequest(user=_named(USERNAME))),
        "GET_USER_QUOTA (oneself)": ("Accounts/GetUserQuota", v1.GetUserQuotaRequest(user=_named(LIMITED))),
        "SET_USER_QUOTA": ("Accounts/SetUserQuota", v1.SetUserQuotaRequest(user=_named("missing"))),
        "GET_TOPIC_QUOTA": ("Catalog/GetTopicQuota", v1.GetTopicQuotaRequest(**t)),
        "SET_TOPIC_QUOTA": ("Catalog/SetTopicQuota", v1.SetTopicQuotaRequest(**t)),
        "FLUSH_UNSAVED_BUFFER": ("Messages/Flush", v1.FlushRequest(**t)),
        "WAIT_MESSAGES": (
            "Subscriptions/Consume",
            _consume(v1.Subscribe(**t, partition_ids=[0], start=v1.Start(first=v1.Start.First()))),
        ),
        "JOIN_CONSUMER_GROUP": (
            "Subscriptions/Consume",
            _consume(v1.Subscribe(**dt, consumer=v1.Consumer(group=_named("g")))),
        ),
        "WATCH_PARTITIONS": (
            "Subscriptions/Watch",
            v1.WatchRequest(topics=[v1.WatchedTopic(**t, partition_ids=[0])]),
        ),
        "ISSUE_TICKET (to read)": ("Pipelines/IssueTicket", v1.IssueTicketRequest(**t, read=True)),
        "ISSUE_TICKET (to send)": ("Pipelines/IssueTicket", v1.IssueTicketRequest(**t, write=True)),
        "ISSUE_TICKET (for both)": ("Pipelines/IssueTicket", v1.IssueTicketRequest(**t, read=True, write=True)),
        **_transactions(),
        "GET_CONSUMER_OFFSET": (
            "Messages/GetOffset",
            v1.GetOffsetRequest(**t, consumer=v1.Consumer(consumer=v1.Identifier(id=2))),
        ),
        "STORE_CONSUMER_OFFSET": ("Messages/StoreOffset", v1.StoreOffsetRequest(**consumer, offset=99)),
        "DELETE_CONSUMER_OFFSET": ("Messages/DeleteOffset", v1.DeleteOffsetRequest(**consumer)),
    }


def _transactions() -> dict[str, Call | list[Call]]:
    stream = {"stream": _named("s")}
    transaction = {**stream, "transaction": "transaction"}
    batch = {**transaction, "query_id": "query", "batch_id": 1}
    # Staged batches of a partition that had these ids before.
    stages = [v1.StagedPart(stage_id=bytes(16))]
    reader = {**stream, "reader": "reader"}
    return {
        "COMMIT_TRANSACTION": ("Pipelines/CommitTransaction", v1.CommitTransactionRequest(**batch, stages=stages)),
        "ABORT_TRANSACTION": ("Pipelines/AbortTransaction", v1.AbortTransactionRequest(**batch, stages=stages)),
        "ABORT_TRANSACTION (of nothing)": ("Pipelines/AbortTransaction", v1.AbortTransactionRequest(**batch)),
        "GET_TRANSACTION": ("Pipelines/GetTransaction", v1.GetTransactionRequest(**transaction)),
        "DELETE_TRANSACTION": ("Pipelines/DeleteTransaction", v1.DeleteTransactionRequest(**transaction)),
        "PIN_READER": ("Pipelines/PinReader", v1.PinReaderRequest(**reader, value=b"x")),
        "UNPIN_READER": ("Pipelines/UnpinReader", v1.UnpinReaderRequest(**reader)),
    }


def _consume(subscribe: v1.Subscribe) -> tuple[Message, ...]:
    return v1.ConsumeRequest(subscribe=subscribe), v1.ConsumeRequest(finish=v1.ConsumeRequest.Finish())


def _named(name: str) -> v1.Identifier:
    return v1.Identifier(name=name)
