"""Commands on access tokens, which always belong to the requesting user, and on login tokens.

Statuses in the order in which they are checked, which clients of the binary protocol rely on: create 50, 20, 52, 51;
delete 20; revoke a login 3, 78.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import CommandContext, Refused
from headrace_metadata.state_machine.state import State
from headrace_proto.catalog.v1 import RevokedLogin
from headrace_proto.errors import Status
from headrace_proto.limits import ACCESS_TOKEN_NAME_BYTES, LOGIN_DIGEST_BYTES
from headrace_proto.metadata.v1 import CreateAccessToken, DeleteAccessToken, Reply, RevokeLogin, TokenRecord


def create(state: State, context: CommandContext, command: CreateAccessToken) -> Reply:
    """Store the digest of a token created for the user."""
    if len(command.name.encode()) not in ACCESS_TOKEN_NAME_BYTES:
        raise Refused(Status.INVALID_PERSONAL_ACCESS_TOKEN_NAME)
    user = state.accounts.user(context.actor_user_id)
    # Checked before the name, and with expired tokens, which count until they are removed.
    if 0 < command.tokens_per_user_max <= state.accounts.tokens_count(user.id):
        raise Refused(Status.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED)
    if state.accounts.token(user.id, command.name) or state.accounts.token_with_digest(command.digest):
        raise Refused(Status.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)

    state.accounts.put_token(
        TokenRecord(
            user_id=user.id,
            name=command.name,
            digest=command.digest,
            expires_at_micros=command.expires_at_micros,
            incarnation=context.op,
        )
    )
    return Reply()


def delete(state: State, context: CommandContext, command: DeleteAccessToken) -> Reply:
    """Revoke one of the user's tokens."""
    token = state.accounts.token(context.actor_user_id, command.name)
    if token is None:
        raise Refused(Status.RESOURCE_NOT_FOUND)

    state.accounts.remove_token(token)
    return Reply()


def delete_expired(state: State, context: CommandContext) -> Reply:
    """Remove all expired access tokens and revoked logins, of all users."""
    for token in list(state.accounts.tokens()):
        if has_expired(token, context.timestamp_micros):
            state.accounts.remove_token(token)
    state.accounts.forget_logins(context.timestamp_micros)
    return Reply()


def revoke_login(state: State, context: CommandContext, command: RevokeLogin) -> Reply:
    """Revoke a login token. Expired revocations are removed, so that they do not accumulate."""
    if len(command.digest) != LOGIN_DIGEST_BYTES:
        raise Refused(Status.INVALID_COMMAND)
    is_over = command.expires_at_micros <= context.timestamp_micros
    if command.once and (is_over or state.accounts.is_login_revoked(command.digest)):
        raise Refused(Status.INVALID_ACCESS_TOKEN)
    state.accounts.forget_logins(context.timestamp_micros)
    if not is_over:
        state.accounts.put_revoked_login(
            RevokedLogin(digest=command.digest, expires_at_micros=command.expires_at_micros)
        )
    return Reply()


def has_expired(token: TokenRecord, now_micros: int) -> bool:
    """Return whether a token has expired at this time; an expiry of 0 means never."""
    return 0 < token.expires_at_micros <= now_micros
