"""A metadata service controlled by the test, and a control plane in front of it."""

from dataclasses import dataclass, replace

import pytest

from headrace_gateway.access.access_tokens import AccessTokens
from headrace_gateway.access.login_limits import LoginLimits
from headrace_gateway.access.logins import Logins
from headrace_gateway.access.passwords import Passwords
from headrace_gateway.audit.limits import EventLimits, Rate
from headrace_gateway.control.diagnostics import Diagnostics
from headrace_gateway.control.dispatch import Control
from headrace_gateway.control.memberships import MembershipLimits, Memberships
from headrace_gateway.control.topic_defaults import TopicDefaults
from headrace_gateway.control.topic_durability import TopicDurability
from headrace_gateway.observability.host_statistics import Host
from headrace_node import Publications
from headrace_proto.catalog import v1 as catalog_v1
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE, USER_STATUS_INACTIVE
from headrace_proto.control.v1 import Request
from headrace_proto.metadata.v1 import Command, Reply

NOW = 1_700_000_000_000_000
GATEWAY = 4711


@dataclass(frozen=True)
class User:
    user_id: int
    username: str
    password_hash: str
    is_active: bool = True
    password_version: int = 1

    @property
    def record(self):
        status = USER_STATUS_ACTIVE if self.is_active else USER_STATUS_INACTIVE
        return catalog_v1.User(
            id=self.user_id, username=self.username, status=status, password_version=self.password_version
        )


@dataclass(frozen=True)
class Token:
    user_id: int
    digest: bytes
    expires_at_micros: int = 0
    is_active: bool = True
    name: str = "token"
    incarnation: int = 7


class Metadata:
    """Users and tokens set by the test; commands are recorded and answered with ``reply``."""

    def __init__(self):
        self.version = 1
        self.users = {}
        self.tokens = {}
        self.transactions = {}
        self.streams = {1: "orders"}
        self.members = {}
        self.gateways = {}
        self.asked_for_partitions = 0
        self.asked_for_tokens = 0
        self.partitions_await = 0
        self.pulse_due_at = NOW + 1
        self.commands = []
        self.reply = Reply()
        self.failure = None
        self.gate = None
        self.on_propose = lambda command: None

    async def transaction(self, stream_id, name):
        return self.transactions.get((stream_id, name))

    async def credentials_of(self, user_id):
        return self.users.get(user_id)

    async def credentials_named(self, username):
        return next((user for user in self.users.values() if user.username == username), None)

    async def access_token(self, digest):
        self.asked_for_tokens += 1
        return self.tokens.get(digest)

    def user(self, user_id):
        found = self.users.get(user_id)
        return found.record if found is not None else None

    def user_named(self, username):
        return next((user.record for user in self.users.values() if user.username == username), None)

    def token_of(self, user_id, name):
        found = (token for token in self.tokens.values() if (token.user_id, token.name) == (user_id, name))
        return next(
            (
                catalog_v1.AccessToken(
                    user_id=user_id,
                    name=name,
                    incarnation=token.incarnation,
                    expires_at_micros=token.expires_at_micros,
                )
                for token in found
            ),
            None,
        )

    def stream_name(self, stream_id):
        return self.streams.get(stream_id)

    def has_expired_access_tokens(self, now_micros):
        return any(0 < token.expires_at_micros <= now_micros for token in self.tokens.values())

    def has_members(self, gateway_id):
        return bool(self.members.get(gateway_id))

    def is_member(self, gateway_id, client_id):
        return client_id in self.members.get(gateway_id, ())

    def awaits_partitions(self, gateway_id, client_id):
        self.asked_for_partitions += 1
        return self.asked_for_partitions <= self.partitions_await

    def has_earlier_gateway(self, name, gateway_id):
        return any(other != gateway_id for other in self.gateways.get(name, ()))

    def is_pulse_due(self, now_micros):
        return self.pulse_due_at <= now_micros

    async def propose(self, command):
        if self.failure is not None:
            raise self.failure
        if self.gate is not None:
            await self.gate.wait()
        self.commands.append(command)
        self.on_propose(command)
        return self.reply

    def put_user(self, user_id, username, password_hash, **fields):
        self.users[user_id] = User(user_id, username, password_hash, **fields)

    def change_user(self, user_id, **fields):
        self.users[user_id] = replace(self.users[user_id], **fields)

    def put_token(self, user_id, digest, **fields):
        self.tokens[digest] = Token(user_id, digest, **fields)


class CountedPasswords(Passwords):
    """Real hashes; counts verifications."""

    def __init__(self):
        super().__init__(threads=2)
        self.verified = 0
        self.meanwhile = lambda: None
        """Action performed while a password is being verified."""

    async def verify(self, password_hash, password):
        self.verified += 1
        is_right = await super().verify(password_hash, password)
        self.meanwhile()
        return is_right


@pytest.fixture
def metadata():
    return Metadata()


@pytest.fixture
async def passwords():
    async with CountedPasswords() as passwords:
        yield passwords


@pytest.fixture
def diagnostics(tmp_path):
    return Diagnostics(
        host=Host(tmp_path),
        data_directory=tmp_path,
        log_directory=tmp_path / "logs",
        configuration="[tcp]\nenabled = true\n",
    )


@pytest.fixture
def memberships(metadata):
    return Memberships(
        proposer=metadata,
        reader=metadata,
        gateway_id=GATEWAY,
        gateway_name="here",
        limits=MembershipLimits(revocation_micros=30_000_000, gateway_micros=20_000_000, check_seconds=0.01),
        clock=lambda: NOW,
    )


@pytest.fixture
def publications(metadata):
    return Publications(metadata.propose)


@pytest.fixture
def logins(metadata, passwords):
    return Logins(
        accounts=metadata,
        credentials=metadata,
        access_tokens=AccessTokens(accounts=metadata, credentials=metadata, clock=lambda: NOW),
        passwords=passwords,
        limits=LoginLimits(failures_max=10, interval_micros=6_000_000),
        clock=lambda: NOW,
    )


@pytest.fixture
def control(metadata, logins, memberships, publications, passwords, diagnostics, tmp_path):
    return Control(
        proposer=metadata,
        accounts=metadata,
        credentials=metadata,
        streams=metadata,
        logins=logins,
        passwords=passwords,
        password_limits=LoginLimits(failures_max=10, interval_micros=6_000_000),
        memberships=memberships,
        transactions=metadata,
        publications=publications,
        topic_defaults=TopicDefaults(
            message_expiry_micros=111,
            max_size_bytes=10_000_000,
            segment_size_bytes=1_000_000,
            durability=(TopicDurability.parse("orders/paid-*=fsync"),),
        ),
        tokens_per_user_max=5,
        own_changes=EventLimits(Rate(4, 1_000_000)),
        host=Host(tmp_path),
        diagnostics=diagnostics,
        clock=lambda: NOW,
    )


@pytest.fixture
def ask(control):
    """Send a request of a user (none before login) and return the reply."""

    async def send(user_id=None, **operation):
        return await control.handle(Request(client_id=7, address="127.0.0.1:1", user_id=user_id, **operation))

    return send


@pytest.fixture
def command(ask):
    """Send a command of user 3 and return the reply."""

    async def send(**operation):
        return await ask(3, command=Command(**operation))

    return send
