"""Local catalog view of users, tokens, topics and members, read with every request.

Updated in step with the shards of the process. Permissions are checked by the shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from headrace_gateway.catalog.member_index import MemberIndex
from headrace_gateway.catalog.topic_index import TopicIndex, Unavailable
from headrace_gateway.ports import GroupPath, TopicPlaces
from headrace_proto.catalog.v1 import AccessToken, Delta, Node, Snapshot, Update, User


class CatalogView:
    """All records at one version. Methods must be called on the thread of the event loop."""

    def __init__(self) -> None:
        self.version = 0
        self._users: dict[int, User] = {}
        self._user_ids: dict[str, int] = {}
        self._tokens: dict[int, dict[str, AccessToken]] = {}
        self._topics = TopicIndex()
        self._members = MemberIndex()
        self._revoked: dict[bytes, int] = {}

    def replace(self, snapshot: Snapshot) -> None:
        """Replace the whole catalog."""
        fresh = CatalogView()
        for user in snapshot.users:
            fresh._put_user(user)
        for token in snapshot.access_tokens:
            fresh._put_token(token)
        for group in snapshot.consumer_groups:
            fresh._members.put(group)
        for login in snapshot.revoked_logins:
            fresh._revoked[login.digest] = login.expires_at_micros
        self._users, self._user_ids, self._tokens = fresh._users, fresh._user_ids, fresh._tokens
        self._members, self._revoked = fresh._members, fresh._revoked
        self._topics = TopicIndex(snapshot.streams, snapshot.topics, snapshot.nodes, snapshot.topic_placements)
        self.version = snapshot.version

    def update(self, update: Update) -> None:
        """Apply an update to the next version."""
        for delta in update.deltas:
            self._change(delta)
        self.version = update.version

    def user(self, user_id: int) -> User | None:
        """Return a user; None if the user does not exist."""
        return self._users.get(user_id)

    def user_named(self, username: str) -> User | None:
        """Return the user with this name; None if there is none."""
        user_id = self._user_ids.get(username)
        return self._users[user_id] if user_id is not None else None

    def token_of(self, user_id: int, name: str) -> AccessToken | None:
        """Return the user's access token with this name, expired or not; None if there is none."""
        return self._tokens.get(user_id, {}).get(name)

    def has_expired_access_tokens(self, now_micros: int) -> bool:
        """Return whether any access token has expired and can be deleted."""
        tokens = (token for tokens in self._tokens.values() for token in tokens.values())
        return any(0 < token.expires_at_micros <= now_micros for token in tokens) or any(
            expires_at_micros <= now_micros for expires_at_micros in self._revoked.values()
        )

    def stream_name(self, stream_id: int) -> str | None:
        """Return the name of a stream; None if the stream does not exist."""
        return self._topics.stream_name(stream_id)

    def find_topic(self, stream: int | str, topic: int | str) -> TopicPlaces | None:
        """Return a topic; None if it does not exist."""
        return self._topics.find_topic(stream, topic)

    def topics_of(self, stream: int | str) -> Sequence[TopicPlaces] | None:
        """Return the topics of a stream, ascending by id; None if the stream does not exist."""
        return self._topics.topics_of(stream)

    def nodes(self) -> Sequence[Node]:
        """Return the partition nodes, ascending by id."""
        return self._topics.nodes()

    def led_partitions(self) -> Counter[int]:
        """Return the number of partitions that each node leads, by the id of the node."""
        return self._topics.led_partitions()

    def led_by(self, nodes: Iterable[Node]) -> Sequence[Unavailable]:
        """Return the partitions that these nodes lead, by node, stream and topic."""
        return self._topics.led_by(nodes)

    def is_login_revoked(self, digest: bytes) -> bool:
        """Return whether a login token was revoked."""
        return digest in self._revoked

    def has_members(self, gateway_id: int) -> bool:
        """Return whether a connection of this gateway is a member of any group."""
        return self._members.has_members(gateway_id)

    def is_member(self, gateway_id: int, client_id: int) -> bool:
        """Return whether this connection is a member of any group."""
        return self._members.is_member(gateway_id, client_id)

    def member_ids(self, gateway_id: int, client_id: int) -> Mapping[GroupPath, int]:
        """Return the ids of this connection as a member, by group."""
        return self._members.member_ids(gateway_id, client_id)

    def awaits_partitions(self, gateway_id: int, client_id: int) -> bool:
        """Return whether partitions are about to move to this connection."""
        return self._members.awaits_partitions(gateway_id, client_id)

    def has_earlier_gateway(self, name: str, gateway_id: int) -> bool:  # noqa: ARG002
        """Return true: the catalog has no gateway names, so earlier members may exist."""
        return True

    def is_pulse_due(self, now_micros: int) -> bool:  # noqa: ARG002
        """Return false: the metadata service checks timeouts with its own clock."""
        return False

    def _change(self, delta: Delta) -> None:
        self._topics.change(delta)
        match delta.WhichOneof("change"):
            case "stream_deleted":
                self._members.forget_groups(delta.stream_deleted)
            case "topic_deleted":
                self._members.forget_groups(delta.topic_deleted.stream_id, delta.topic_deleted.topic_id)
            case "user_put":
                self._put_user(delta.user_put)
            case "user_deleted":
                del self._user_ids[self._users.pop(delta.user_deleted).username]
                self._tokens.pop(delta.user_deleted, None)
            case "access_token_put":
                self._put_token(delta.access_token_put)
            case "access_token_deleted":
                key = delta.access_token_deleted
                del self._tokens[key.user_id][key.name]
            case "consumer_group_put":
                self._members.put(delta.consumer_group_put)
            case "consumer_group_deleted":
                deleted = delta.consumer_group_deleted
                self._members.forget((deleted.stream_id, deleted.topic_id, deleted.group_id))
            case "revoked_login_put":
                self._revoked[delta.revoked_login_put.digest] = delta.revoked_login_put.expires_at_micros
            case "revoked_login_deleted":
                del self._revoked[delta.revoked_login_deleted]

    def _put_user(self, user: User) -> None:
        previous = self._users.get(user.id)
        if previous is not None:
            del self._user_ids[previous.username]
        self._users[user.id] = user
        self._user_ids[user.username] = user.id

    def _put_token(self, token: AccessToken) -> None:
        self._tokens.setdefault(token.user_id, {})[token.name] = token
