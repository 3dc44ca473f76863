"""Users, passwords and access tokens (CTL-9): secrets become hashes and digests before anything is proposed."""

import asyncio
import base64
import hashlib

import pytest

from headrace_gateway.access.root_user import RootUserError, create_root_user
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE, GlobalPermissions, Permissions, StreamPermissions, User
from headrace_proto.control.v1 import ChangePassword, CreateAccessToken, CreateUser
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Reply

NOW = 1_700_000_000_000_000


@pytest.fixture
def create_user(ask):
    async def send(username="ann", password=b"secret", status=USER_STATUS_ACTIVE, **fields):
        return await ask(3, create_user=CreateUser(username=username, password=password, status=status, **fields))

    return send


@pytest.fixture
def change_password(ask):
    async def send(current, new, user_id=5):
        return await ask(3, change_password=ChangePassword(user_id=user_id, current_password=current, new_password=new))

    return send


@pytest.fixture
def create_token(ask):
    async def send(name="token", expiry_micros=0):
        return await ask(3, create_access_token=CreateAccessToken(name=name, expiry_micros=expiry_micros))

    return send


async def test_a_user_is_created_with_a_hash(create_user, metadata, passwords):
    metadata.reply = Reply(user=User(id=9, username="ann"))
    permissions = Permissions(streams=[StreamPermissions(stream_id=1)])
    reply = await create_user(permissions=permissions)
    assert (reply.status, reply.user.id) == (0, 9)
    command = metadata.commands[0]
    assert command.actor_user_id == 3
    assert (command.create_user.username, command.create_user.status) == ("ann", USER_STATUS_ACTIVE)
    assert command.create_user.permissions == permissions
    assert b"secret" not in command.SerializeToString()
    assert await passwords.verify(command.create_user.password_hash, b"secret")


async def test_without_permissions_there_is_no_record(create_user, metadata):
    await create_user()
    assert not metadata.commands[0].create_user.HasField("permissions")


async def test_users_are_checked_before_anything_is_hashed(create_user, metadata):
    metadata.put_user(5, "bob", "hash")
    assert (await create_user(username="ab", password=b"")).status == Status.INVALID_USERNAME
    assert (await create_user(username="n" * 51)).status == Status.INVALID_USERNAME
    assert (await create_user(password=b"12", status=9)).status == Status.INVALID_PASSWORD
    assert (await create_user(password=b"1" * 101)).status == Status.INVALID_PASSWORD
    assert (await create_user(username="bob", status=9)).status == Status.INVALID_COMMAND
    assert (await create_user(username="bob")).status == Status.USER_ALREADY_EXISTS
    assert metadata.commands == []


async def test_a_refusal_of_the_metadata_service_is_passed_on(create_user, metadata):
    metadata.reply = Reply(status=Status.USERS_LIMIT_REACHED)
    assert (await create_user()).status == Status.USERS_LIMIT_REACHED


async def test_a_password_is_changed_by_who_knows_the_present_one(change_password, metadata, passwords):
    metadata.put_user(5, "ann", await passwords.hash(b"secret"))
    assert (await change_password(b"wrong", b"new secret")).status == Status.INVALID_CREDENTIALS
    assert (await change_password(b"secret", b"12")).status == Status.INVALID_PASSWORD
    assert (await change_password(b"12", b"new secret", user_id=6)).status == Status.INVALID_PASSWORD
    assert (await change_password(b"secret", b"new secret", user_id=6)).status == Status.RESOURCE_NOT_FOUND
    assert metadata.commands == []
    assert (await change_password(b"secret", b"new secret")).status == 0
    changed = metadata.commands[0].change_password
    assert changed.user_id == 5
    assert await passwords.verify(changed.password_hash, b"new secret")


async def test_a_password_cannot_be_guessed_by_changing_it(change_password, metadata, passwords):
    """Limits also apply to concurrent guesses; logins, and changes of other users' passwords, are not affected."""
    for user_id in (5, 6):
        metadata.put_user(user_id, f"user-{user_id}", await passwords.hash(b"secret"))
    replies = await asyncio.gather(*(change_password(b"wrong", b"new secret") for _ in range(40)))
    assert {reply.status for reply in replies} == {Status.INVALID_CREDENTIALS, Status.TOO_MANY_LOGIN_ATTEMPTS}
    # Each thread may be verifying one more password when the last failure is counted.
    assert passwords.verified <= 10 + 1
    assert (await change_password(b"secret", b"new secret")).status == Status.TOO_MANY_LOGIN_ATTEMPTS
    assert metadata.commands == []
    assert (await change_password(b"secret", b"new secret", user_id=6)).status == Status.OK


async def test_a_token_is_shown_once_and_kept_as_a_digest(create_token, metadata):
    reply = await create_token("my token")
    assert reply.status == 0
    assert len(reply.access_token) == 68
    assert len(base64.b64decode(reply.access_token, validate=True)) == 50
    command = metadata.commands[0]
    assert command.actor_user_id == 3
    assert command.create_access_token.name == "my token"
    assert command.create_access_token.digest == hashlib.sha256(reply.access_token.encode()).digest()
    assert command.create_access_token.tokens_per_user_max == 5
    assert (await create_token()).access_token != reply.access_token


@pytest.mark.parametrize(
    ("expiry_micros", "expected"),
    [
        (0, 0),
        (2**64 - 1, 0),
        (1, NOW + 1),
        (3_600_000_000, NOW + 3_600_000_000),
        (2**64 - 2, 0),
        (2**64 - NOW - 2, 2**64 - 2),
    ],
)
async def test_token_expiry(create_token, metadata, expiry_micros, expected):
    await create_token(expiry_micros=expiry_micros)
    assert metadata.commands[0].create_access_token.expires_at_micros == expected


async def test_a_refused_token_is_not_shown(create_token, metadata):
    metadata.reply = Reply(status=Status.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED)
    reply = await create_token()
    assert reply.status == Status.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED
    assert reply.WhichOneof("body") is None


async def create_root(metadata, passwords, username="root", password="secret"):
    return await create_root_user(
        proposer=metadata, credentials=metadata, passwords=passwords, username=username, password=password
    )


async def test_the_root_user_may_do_everything(metadata, passwords):
    metadata.reply = Reply(user=User(id=0))
    assert await create_root(metadata, passwords)
    command = metadata.commands[0].create_user
    assert command.username == "root"
    assert await passwords.verify(command.password_hash, b"secret")
    everything = getattr(command.permissions, "global")
    assert len(everything.ListFields()) == len(GlobalPermissions.DESCRIPTOR.fields) == 10


async def test_an_existing_root_user_is_left_alone(metadata, passwords):
    metadata.put_user(0, "admin", "hash")
    assert not await create_root(metadata, passwords, username="", password="")
    assert metadata.commands == []


async def test_a_root_user_that_cannot_be(metadata, passwords):
    with pytest.raises(RootUserError, match="name of the root user has 2 bytes; 3 to 50 are allowed"):
        await create_root(metadata, passwords, username="ab")
    with pytest.raises(RootUserError, match="password of the root user has 101 bytes; 3 to 100 are allowed"):
        await create_root(metadata, passwords, password="1" * 101)
    metadata.reply = Reply(status=Status.USERS_LIMIT_REACHED)
    with pytest.raises(RootUserError, match=f"status {Status.USERS_LIMIT_REACHED}"):
        await create_root(metadata, passwords)


async def test_of_gateways_that_start_side_by_side_one_creates_the_root_user(metadata, passwords):
    metadata.reply = Reply(status=Status.USER_ALREADY_EXISTS)
    assert not await create_root(metadata, passwords)
    assert metadata.commands[0].create_user.is_root
