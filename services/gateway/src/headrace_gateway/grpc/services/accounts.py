"""Users and their access tokens."""

from __future__ import annotations

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_gateway.grpc.calls import Caller
from headrace_gateway.grpc.conversions import (
    identifier,
    permissions,
    permissions_message,
    status_of_user,
    user_summary,
)
from headrace_proto.errors import Status
from headrace_proto.gateway import v1


class Accounts:
    """``headrace.gateway.v1.Accounts``."""

    async def list_users(self, _: v1.ListUsersRequest, caller: Caller) -> v1.ListUsersResponse:
        users = core.decode_users(await caller.execute(core.encode_get_users()))
        return v1.ListUsersResponse(users=map(user_summary, users))

    async def get_user(self, request: v1.GetUserRequest, caller: Caller) -> v1.GetUserResponse:
        name = identifier(request.user, "user")
        user = _found(core.decode_user(await caller.find(core.encode_get_user(user=name))))
        granted = None if user.permissions is None else permissions_message(user.permissions)
        return v1.GetUserResponse(user=user_summary(user), permissions=granted)

    async def create_user(self, request: v1.CreateUserRequest, caller: Caller) -> v1.CreateUserResponse:
        command = core.encode_create_user(
            username=request.username,
            password=request.password,
            status=status_of_user(request.status) or "active",
            permissions=permissions(request.permissions) if request.HasField("permissions") else None,
        )
        user = _found(core.decode_user(await caller.execute(command)))
        return v1.CreateUserResponse(user=user_summary(user))

    async def update_user(self, request: v1.UpdateUserRequest, caller: Caller) -> v1.UpdateUserResponse:
        command = core.encode_update_user(
            user=identifier(request.user, "user"),
            username=request.username if request.HasField("username") else None,
            status=status_of_user(request.status),
        )
        await caller.execute(command)
        return v1.UpdateUserResponse()

    async def update_permissions(
        self, request: v1.UpdatePermissionsRequest, caller: Caller
    ) -> v1.UpdatePermissionsResponse:
        granted = permissions(request.permissions) if request.HasField("permissions") else None
        user = identifier(request.user, "user")
        await caller.execute(core.encode_update_permissions(user=user, permissions=granted))
        return v1.UpdatePermissionsResponse()

    async def change_password(self, request: v1.ChangePasswordRequest, caller: Caller) -> v1.ChangePasswordResponse:
        command = core.encode_change_password(
            user=identifier(request.user, "user"),
            current_password=request.current_password,
            new_password=request.new_password,
        )
        await caller.execute(command)
        return v1.ChangePasswordResponse()

    async def delete_user(self, request: v1.DeleteUserRequest, caller: Caller) -> v1.DeleteUserResponse:
        await caller.execute(core.encode_delete_user(user=identifier(request.user, "user")))
        return v1.DeleteUserResponse()

    async def list_access_tokens(self, _: v1.ListAccessTokensRequest, caller: Caller) -> v1.ListAccessTokensResponse:
        tokens = core.decode_access_tokens(await caller.execute(core.encode_get_personal_access_tokens()))
        return v1.ListAccessTokensResponse(
            tokens=[
                v1.AccessTokenSummary(name=token.name, expires_at_micros=token.expires_at_micros or 0)
                for token in tokens
            ]
        )

    async def create_access_token(
        self, request: v1.CreateAccessTokenRequest, caller: Caller
    ) -> v1.CreateAccessTokenResponse:
        command = core.encode_create_personal_access_token(name=request.name, expiry_micros=request.expiry_micros)
        return v1.CreateAccessTokenResponse(token=core.decode_raw_access_token(await caller.execute(command)))

    async def delete_access_token(
        self, request: v1.DeleteAccessTokenRequest, caller: Caller
    ) -> v1.DeleteAccessTokenResponse:
        await caller.execute(core.encode_delete_personal_access_token(name=request.name))
        return v1.DeleteAccessTokenResponse()


def _found(user: core.User | None) -> core.User:
    if user is None:
        raise Refused(Status.RESOURCE_NOT_FOUND, "the user does not exist")
    return user
