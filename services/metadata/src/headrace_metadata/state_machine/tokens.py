"""Commands on access tokens, which always belong to the user who asks, and on the tokens of logins.

Statuses in the order in which they are checked, which clients of the binary protocol rely on:
create 50, 20, 52, 51; delete 20; revoke a login 3, 78.
"""

from __future__ import annotations

from headrace_metadata.state_machine.operation import Operation, Refused
from headrace_metadata.state_machine.state import State
from headrace_proto.catalog.v1 import RevokedLogin
from headrace_proto.errors import Status
from headrace_proto.limits import ACCESS_TOKEN_NAME_BYTES, LOGIN_DIGEST_BYTES
from headrace_proto.metadata.v1 import CreateAccessToken, DeleteAccessToken, Reply, RevokeLogin, TokenRecord


def create(state: State, operation: Operation, command: CreateAccessToken) -> Reply:
    """Keep the digest of a token that the user has been given."""
    if len(command.name.encode()) not in ACCESS_TOKEN_NAME_BYTES:
        raise Refused(Status.INVALID_PERSONAL_ACCESS_TOKEN_NAME)
    user = state.accounts.user(operation.actor_user_id)
    # Before the name, and with tokens that have expired: they count until they are removed.
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
            incarnation=operation.op,
        )
    )
    return Reply()


def delete(state: State, operation: Operation, command: DeleteAccessToken) -> Reply:
    """Revoke one of the user's tokens."""
    token = state.accounts.token(operation.actor_user_id, command.name)
    if token is None:
        raise Refused(Status.RESOURCE_NOT_FOUND)

    state.accounts.remove_token(token)
    return Reply()


def delete_expired(state: State, operation: Operation) -> Reply:
    """Remove every access token, of all users, and every revoked login that has expired by now."""
    for token in list(state.accounts.tokens()):
        if has_expired(token, operation.timestamp_micros):
            state.accounts.remove_token(token)
    state.accounts.forget_logins(operation.timestamp_micros)
    return Reply()


def revoke_login(state: State, operation: Operation, command: RevokeLogin) -> Reply:
    """Take the token of a login back. Those that are over by now are forgotten, so that they do not pile up."""
    if len(command.digest) != LOGIN_DIGEST_BYTES:
        raise Refused(Status.INVALID_COMMAND)
    is_over = command.expires_at_micros <= operation.timestamp_micros
    if command.once and (is_over or state.accounts.is_login_revoked(command.digest)):
        raise Refused(Status.INVALID_ACCESS_TOKEN)
    state.accounts.forget_logins(operation.timestamp_micros)
    if not is_over:
        state.accounts.put_revoked_login(
            RevokedLogin(digest=command.digest, expires_at_micros=command.expires_at_micros)
        )
    return Reply()


def has_expired(token: TokenRecord, now_micros: int) -> bool:
    """Say whether a token is refused at this time; an expiry of 0 never comes."""
    return 0 < token.expires_at_micros <= now_micros
