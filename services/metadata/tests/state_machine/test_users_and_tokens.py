"""Rules for users, permissions and access tokens (CTL-2, CTL-9), each with the status that clients rely on."""

import pytest
from metadata_commands import create_stream, create_token, create_user, permissions_for

from headrace_metadata.applied_state import AppliedState
from headrace_metadata.state_machine import StateMachine, UnknownCommandError
from headrace_proto.catalog.v1 import (
    USER_STATUS_ACTIVE,
    USER_STATUS_INACTIVE,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from headrace_proto.errors import Status
from headrace_proto.limits import USER_ID_MAX
from headrace_proto.metadata.v1 import (
    ChangePassword,
    Command,
    DeleteAccessToken,
    DeleteExpiredAccessTokens,
    DeleteUser,
    RevokeLogin,
    UpdatePermissions,
    UpdateUser,
)


class Driver:
    """A machine that applies one command after the other, and the state that readers see."""

    def __init__(self):
        self.machine = StateMachine()
        self.read = AppliedState(self.machine)

    def __call__(self, command):
        return self.machine.apply(self.machine.op + 1, self.machine.timestamp_micros + 10, command)

    def status(self, command):
        applied = self(command)
        assert applied.reply.status == 0 or applied.update is None
        return applied.reply.status

    def user(self, user_id):
        return next(user for user in self.machine.catalog().users if user.id == user_id)


@pytest.fixture
def do():
    return Driver()


@pytest.fixture
def with_root(do):
    do(create_user("root"))
    return do


def delete_user(user_id):
    return Command(delete_user=DeleteUser(user_id=user_id))


def update_user(user_id, **fields):
    return Command(update_user=UpdateUser(user_id=user_id, **fields))


def delete_token(user_id, name):
    return Command(actor_user_id=user_id, delete_access_token=DeleteAccessToken(name=name))


def test_the_first_user_is_root_and_ids_are_never_used_again(do):
    assert [do(create_user(name)).reply.user.id for name in ("root", "ann", "bob")] == [0, 1, 2]
    assert do.status(delete_user(2)) == 0
    assert do(create_user("bob")).reply.user.id == 3


def test_root_is_created_once_whatever_its_name(do):
    command = create_user("root")
    command.create_user.is_root = True
    assert do(command).reply.user.id == 0
    command.create_user.username = "admin"
    assert do.status(command) == Status.USER_ALREADY_EXISTS


def test_ids_end_before_the_one_that_means_no_user(with_root):
    with_root.machine.state.accounts.next_user_id = USER_ID_MAX
    assert with_root(create_user("last")).reply.user.id == 2**32 - 2
    assert with_root.status(create_user("one too many")) == Status.USERS_LIMIT_REACHED


def test_root_cannot_be_deleted_nor_restricted(with_root):
    assert with_root.status(delete_user(0)) == Status.CANNOT_DELETE_USER
    command = Command(update_permissions=UpdatePermissions(user_id=0))
    assert with_root.status(command) == Status.CANNOT_CHANGE_PERMISSIONS
    assert with_root.status(update_user(0, username="admin", status=USER_STATUS_INACTIVE)) == 0
    assert with_root.read.credentials_named("admin").user_id == 0


def test_usernames_are_unique_and_have_3_to_50_bytes(with_root):
    with_root(create_user("ann"))
    for username in ("", "ab", "é", "n" * 51):
        assert with_root.status(create_user(username)) == Status.INVALID_USERNAME
        assert with_root.status(update_user(9, username=username)) == Status.INVALID_USERNAME
    assert with_root.status(create_user("ann", status=9)) == Status.INVALID_COMMAND
    assert with_root.status(create_user("ann")) == Status.USER_ALREADY_EXISTS
    assert with_root.status(update_user(1, username="root")) == Status.USER_ALREADY_EXISTS
    assert with_root.status(update_user(1, username="ann")) == 0, "the present name is fine"
    assert with_root.status(update_user(1, username="anna")) == 0
    assert with_root.status(create_user("ann")) == 0, "the old name is free"


def test_updating_a_user_changes_what_is_given(with_root):
    with_root(create_user("ann", permissions=permissions_for({1: []})))
    before = with_root.user(1)
    assert with_root.status(update_user(1)) == 0
    assert with_root.user(1) == before
    assert with_root.status(update_user(1, status=USER_STATUS_INACTIVE)) == 0
    after = with_root.user(1)
    assert (after.username, after.status) == ("ann", USER_STATUS_INACTIVE)
    assert after.permissions == before.permissions
    assert with_root.status(update_user(1, status=0)) == Status.INVALID_COMMAND
    assert with_root.status(update_user(9, username="new")) == Status.RESOURCE_NOT_FOUND


def test_what_does_not_exist_is_not_found(with_root):
    for command in (
        delete_user(9),
        update_user(9),
        Command(update_permissions=UpdatePermissions(user_id=9)),
        Command(change_password=ChangePassword(user_id=9, password_hash="hash")),
        create_token(9, "token"),
        delete_token(0, "token"),
    ):
        assert with_root.status(command) == Status.RESOURCE_NOT_FOUND


def test_the_catalog_records_that_a_password_was_changed_and_nothing_else_of_it(with_root):
    before = with_root.read.credentials_of(0)
    applied = with_root(Command(change_password=ChangePassword(user_id=0, password_hash="new")))
    assert applied.reply.status == 0
    shown = applied.update.deltas[0].user_put
    assert shown.password_version == before.password_version + 1
    assert b"new" not in applied.update.SerializeToString()
    after = with_root.read.credentials_of(0)
    assert (after.password_hash, after.password_version) == ("new", shown.password_version)
    with_root(update_user(0, username="admin"))
    assert with_root.user(0).password_version == shown.password_version


def test_permissions_are_stored_ascending_and_the_last_of_duplicates_counts(with_root):
    scrambled = Permissions(
        streams=[
            StreamPermissions(stream_id=5, manage_stream=True),
            StreamPermissions(stream_id=3, read_stream=True),
            StreamPermissions(
                stream_id=5,
                topics=[
                    TopicPermissions(topic_id=2, read_topic=True),
                    TopicPermissions(topic_id=1),
                    TopicPermissions(topic_id=2, manage_topic=True),
                ],
            ),
        ],
        **{"global": GlobalPermissions(read_users=True)},
    )
    expected = Permissions(
        streams=[
            StreamPermissions(stream_id=3, read_stream=True),
            StreamPermissions(
                stream_id=5, topics=[TopicPermissions(topic_id=1), TopicPermissions(topic_id=2, manage_topic=True)]
            ),
        ],
        **{"global": GlobalPermissions(read_users=True)},
    )
    assert with_root(create_user("ann", permissions=scrambled)).reply.user.permissions == expected
    with_root(create_user("bob"))
    with_root(Command(update_permissions=UpdatePermissions(user_id=2, permissions=scrambled)))
    assert with_root.user(2).permissions == expected
    with_root(Command(update_permissions=UpdatePermissions(user_id=2)))
    assert not with_root.user(2).HasField("permissions")


def test_credentials(with_root):
    with_root(create_user("ann", status=USER_STATUS_INACTIVE))
    ann = with_root.read.credentials_named("ann")
    assert (ann.user_id, ann.username, ann.password_hash, ann.is_active) == (1, "ann", "hash of ann", False)
    assert with_root.read.credentials_of(1) == ann
    assert with_root.read.credentials_named("bob") is None
    assert with_root.read.credentials_of(2) is None
    with_root(update_user(1, status=USER_STATUS_ACTIVE))
    assert with_root.read.credentials_of(1).is_active


def test_deleting_a_user_deletes_its_tokens(with_root):
    with_root(create_user("ann"))
    with_root(create_token(0, "one", b"root's"))
    with_root(create_token(1, "one", b"ann's"))
    applied = with_root(delete_user(1))
    assert [delta.WhichOneof("change") for delta in applied.update.deltas] == ["user_deleted"]
    assert with_root.read.access_token(b"ann's") is None
    assert with_root.read.access_token(b"root's").user_id == 0
    assert [token.user_id for token in with_root.machine.catalog().access_tokens] == [0]


def test_tokens_are_limited_before_their_names_are_compared(with_root):
    assert with_root.status(create_token(0, "one", tokens_per_user_max=2)) == 0
    assert (
        with_root.status(create_token(0, "one", tokens_per_user_max=2)) == Status.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS
    )
    assert with_root.status(create_token(0, "two", expires_at_micros=1, tokens_per_user_max=2)) == 0
    assert (
        with_root.status(create_token(0, "one", tokens_per_user_max=2)) == Status.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED
    )
    assert with_root.status(create_token(0, "three", tokens_per_user_max=0)) == 0, "0 is no limit"
    for name in ("", "ab", "n" * 31):
        assert with_root.status(create_token(0, name)) == Status.INVALID_PERSONAL_ACCESS_TOKEN_NAME


def test_token_names_are_per_user_and_digests_are_not(with_root):
    with_root(create_user("ann"))
    assert with_root.status(create_token(0, "one", b"digest 1")) == 0
    assert with_root.status(create_token(1, "one", b"digest 1")) == Status.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS
    assert with_root.status(create_token(1, "one", b"digest 2")) == 0
    assert with_root.status(delete_token(1, "one")) == 0
    assert with_root.read.access_token(b"digest 2") is None
    assert with_root.read.access_token(b"digest 1") is not None


def test_the_catalog_shows_no_secret(with_root):
    applied = with_root(create_token(0, "one", b"the digest", expires_at_micros=7))
    shown = applied.update.deltas[0].access_token_put
    assert (shown.user_id, shown.name, shown.expires_at_micros) == (0, "one", 7)
    catalog = with_root.machine.catalog().SerializeToString()
    assert b"the digest" not in catalog + applied.update.SerializeToString()
    assert b"hash of root" not in catalog


def test_expired_tokens_are_removed_by_the_time_of_the_operation(with_root):
    now = with_root.machine.timestamp_micros
    with_root(create_user("ann"))
    for user_id, name, expires_at_micros in [
        (0, "never", 0),
        (1, "now", now + 60),
        (0, "later", now + 61),
        (0, "old", 1),
    ]:
        with_root(create_token(user_id, name, expires_at_micros=expires_at_micros))
    assert with_root.machine.timestamp_micros == now + 50
    assert with_root.read.has_expired_access_tokens(now)
    applied = with_root(Command(delete_expired_access_tokens=DeleteExpiredAccessTokens()))
    assert [delta.access_token_deleted.name for delta in applied.update.deltas] == ["old", "now"]
    assert [token.name for token in with_root.machine.catalog().access_tokens] == ["later", "never"]
    assert not with_root.read.has_expired_access_tokens(now + 60)
    assert with_root.read.has_expired_access_tokens(now + 61)


def test_a_token_that_is_created_anew_is_another_one(with_root):
    with_root(create_token(0, "one", b"digest 1"))
    first = with_root.read.access_token(b"digest 1")
    with_root(delete_token(0, "one"))
    with_root(create_token(0, "one", b"digest 2"))
    second = with_root.read.access_token(b"digest 2")
    assert (first.name, second.name) == ("one", "one")
    assert second.incarnation > first.incarnation > 0
    assert with_root.machine.catalog().access_tokens[0].incarnation == second.incarnation


def revoke(digest, expires_at_micros, *, once=False):
    return Command(revoke_login=RevokeLogin(digest=digest, expires_at_micros=expires_at_micros, once=once))


def changes(applied):
    return [(change := delta.WhichOneof("change"), getattr(delta, change)) for delta in applied.update.deltas]


def test_a_login_is_revoked_until_it_would_be_over_anyway(with_root):
    now = with_root.machine.timestamp_micros
    first, second, third = (bytes([number]) * 16 for number in (1, 2, 3))
    assert [name for name, _ in changes(with_root(revoke(first, now + 35)))] == ["revoked_login_put"]
    assert with_root(revoke(first, now + 99)).update is None, "it is revoked already"
    assert with_root(revoke(second, now + 10)).update is None, "it is over already"
    assert [login.digest for login in with_root.machine.catalog().revoked_logins] == [first]
    assert not with_root.read.has_expired_access_tokens(now + 34)
    assert with_root.read.has_expired_access_tokens(now + 35)
    applied = with_root(revoke(third, now + 1000))
    assert changes(applied)[0] == ("revoked_login_deleted", first)
    assert [login.digest for login in with_root.machine.catalog().revoked_logins] == [third]
    for digest in (b"", b"a" * 15, b"a" * 17):
        assert with_root.status(revoke(digest, now + 1000)) == Status.INVALID_COMMAND


def test_a_login_is_exchanged_once(with_root):
    now = with_root.machine.timestamp_micros
    first, second, third = (bytes([number]) * 16 for number in (1, 2, 3))
    assert with_root.status(revoke(first, now + 1000, once=True)) == Status.OK
    assert with_root.status(revoke(first, now + 1000, once=True)) == Status.INVALID_ACCESS_TOKEN
    assert with_root.status(revoke(first, now + 1000)) == Status.OK, "as often as a client logs out with it"
    with_root(revoke(second, now + 1000))
    assert with_root.status(revoke(second, now + 1000, once=True)) == Status.INVALID_ACCESS_TOKEN
    assert with_root.status(revoke(third, now, once=True)) == Status.INVALID_ACCESS_TOKEN, (
        "no revocation would be remembered"
    )


def test_logins_that_are_over_go_with_access_tokens_that_are(with_root):
    now = with_root.machine.timestamp_micros
    with_root(revoke(b"a" * 16, now + 15))
    applied = with_root(Command(delete_expired_access_tokens=DeleteExpiredAccessTokens()))
    assert changes(applied) == [("revoked_login_deleted", b"a" * 16)]


def test_a_command_that_is_not_known_stops_the_replica(do):
    with pytest.raises(UnknownCommandError):
        do(Command(actor_user_id=1))
    assert do.machine.op == 0


def test_ops_and_timestamps_follow_each_other(do):
    do(create_stream("s"))
    with pytest.raises(ValueError, match="op 3 does not follow"):
        do.machine.apply(3, 1000, create_stream("t"))
    with pytest.raises(ValueError, match="is not after"):
        do.machine.apply(2, do.machine.timestamp_micros, create_stream("t"))


def test_a_reply_and_an_update_do_not_change_with_the_state(do):
    created = do(create_stream("s"))
    reply, update = created.reply.SerializeToString(), created.update.SerializeToString()
    created.reply.stream.name = "altered by the receiver"
    created.update.deltas[0].stream_put.name = "altered by the receiver"
    assert do.machine.catalog().streams[0].name == "s"
    assert b"s" in reply
    assert b"s" in update
