"""Creating users, changing passwords, creating access tokens: the commands that begin with a secret.

Statuses in the order in which they are checked, which clients of the binary protocol rely on:
create a user 43, 44, 3, 46, 55; change a password 44, 20, 20000 after too many failures, 42; create a token 50, 52, 51.
"""

from __future__ import annotations

import base64
import secrets
from typing import Final

from headrace_gateway.access.access_tokens import digest_of
from headrace_gateway.access.login_limits import LoginLimits
from headrace_gateway.access.passwords import Passwords
from headrace_gateway.ports import AccountDirectory, Clock, Credentials, CredentialsReader, Proposer
from headrace_gateway.replies import control_reply
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE, USER_STATUS_INACTIVE
from headrace_proto.control.v1 import ChangePassword, CreateAccessToken, CreateUser, Credential, Reply
from headrace_proto.errors import Status
from headrace_proto.limits import PASSWORD_BYTES, USERNAME_BYTES
from headrace_proto.metadata import v1 as metadata_v1
from headrace_proto.well_known import NEVER_EXPIRES

_TOKEN_BYTES: Final = 50
_U64_MAX: Final = (1 << 64) - 1


class AccountCommands:
    """Hashes secrets and builds the commands that contain the hashes and digests."""

    def __init__(
        self,
        *,
        proposer: Proposer,
        accounts: AccountDirectory,
        credentials: CredentialsReader,
        passwords: Passwords,
        password_limits: LoginLimits,
        tokens_per_user_max: int,
        clock: Clock,
    ) -> None:
        self._proposer = proposer
        self._accounts = accounts
        self._credentials = credentials
        self._passwords = passwords
        self._password_limits = password_limits
        self._tokens_per_user_max = tokens_per_user_max
        self._clock = clock

    async def create_user(self, actor_user_id: int, request: CreateUser) -> Reply:
        """Create a user."""
        if len(request.username.encode()) not in USERNAME_BYTES:
            return Reply(status=Status.INVALID_USERNAME)
        if len(request.password) not in PASSWORD_BYTES:
            return Reply(status=Status.INVALID_PASSWORD)
        if request.status not in {USER_STATUS_ACTIVE, USER_STATUS_INACTIVE}:
            return Reply(status=Status.INVALID_COMMAND)
        if self._accounts.user_named(request.username) is not None:
            # The state machine checks this, too; checking here first saves computing the hash.
            return Reply(status=Status.USER_ALREADY_EXISTS)
        create_user = metadata_v1.CreateUser(
            username=request.username,
            password_hash=await self._hash(actor_user_id, request.password),
            status=request.status,
            permissions=request.permissions if request.HasField("permissions") else None,
        )
        return await self._propose(metadata_v1.Command(actor_user_id=actor_user_id, create_user=create_user))

    async def change_password(self, actor_user_id: int, request: ChangePassword) -> Reply:
        """Change a password; the user, or the administrator who acts for the user, must know the current password."""
        if len(request.current_password) not in PASSWORD_BYTES or len(request.new_password) not in PASSWORD_BYTES:
            return Reply(status=Status.INVALID_PASSWORD)
        credentials = await self._credentials.credentials_of(request.user_id)
        if credentials is None:
            return Reply(status=Status.RESOURCE_NOT_FOUND)
        refusal = await self._refusal_of_password(actor_user_id, credentials, request.current_password)
        if refusal != Status.OK:
            return Reply(status=refusal)
        change_password = metadata_v1.ChangePassword(
            user_id=request.user_id, password_hash=await self._hash(actor_user_id, request.new_password)
        )
        reply = await self._propose(metadata_v1.Command(actor_user_id=actor_user_id, change_password=change_password))
        if reply.status == Status.OK:
            # For the session of the requesting user. After a concurrent change, this version is not the newest one.
            reply.credential.CopyFrom(Credential(password_version=credentials.password_version + 1))
        return reply

    async def create_access_token(self, actor_user_id: int, request: CreateAccessToken) -> Reply:
        """Create an access token of the requesting user. Only the reply contains the text of the token."""
        token = base64.b64encode(secrets.token_bytes(_TOKEN_BYTES)).decode()
        create_access_token = metadata_v1.CreateAccessToken(
            name=request.name,
            digest=digest_of(token),
            expires_at_micros=self._expires_at_micros(request.expiry_micros),
            tokens_per_user_max=self._tokens_per_user_max,
        )
        reply = await self._propose(
            metadata_v1.Command(actor_user_id=actor_user_id, create_access_token=create_access_token)
        )
        return reply if reply.status != Status.OK else Reply(access_token=token)

    async def _refusal_of_password(self, actor_user_id: int, credentials: Credentials, password: bytes) -> int:
        """Apply the login limits: a stolen session must not allow more password guesses here than the login does."""
        whose, actor = f"user {credentials.user_id}", f"user {actor_user_id}"
        async with self._passwords.turns.of(actor, is_known=True):
            if self._password_limits.refused_for_micros(whose, actor, self._clock()) > 0:
                return Status.TOO_MANY_LOGIN_ATTEMPTS
            if not await self._passwords.verify(credentials.password_hash, password):
                self._password_limits.failed(whose, actor, self._clock())
                return Status.INVALID_CREDENTIALS
        self._password_limits.succeeded(whose, actor, self._clock())
        return Status.OK

    async def _hash(self, actor_user_id: int, password: bytes) -> str:
        async with self._passwords.turns.of(f"user {actor_user_id}", is_known=True):
            return await self._passwords.hash(password)

    def _expires_at_micros(self, expiry_micros: int) -> int:
        if expiry_micros in {0, NEVER_EXPIRES}:
            return 0
        expires_at_micros = self._clock() + expiry_micros
        # Expiry does not fit in 64 bits (half a million years): store "never".
        return expires_at_micros if expires_at_micros < _U64_MAX else 0

    async def _propose(self, command: metadata_v1.Command) -> Reply:
        return control_reply(await self._proposer.propose(command))
