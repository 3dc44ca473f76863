"""Users and their access tokens."""

from __future__ import annotations

from typing import TypeVar

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_gateway.grpc.calls import Caller
from headrace_gateway.grpc.conversions import (
    identifier,
    permissions,
    permissions_message,
    quota_message,
    status_of_user,
    user_summary,
)
from headrace_proto.errors import Status
from headrace_proto.gateway import v1

_Record = TypeVar("_Record")


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

    async def list_quotas(self, _: v1.ListQuotasRequest, caller: Caller) -> v1.ListQuotasResponse:
        response = v1.ListQuotasResponse()
        for record in core.decode_quotas(await caller.execute(core.encode_get_quotas())):
            quota = quota_message(record.quota)
            if record.user_id is not None:
                response.users.add(user_id=record.user_id, username=record.username or "", quota=quota)
            else:
                response.topics.add(
                    stream_id=record.stream_id or 0,
                    stream=record.stream or "",
                    topic_id=record.topic_id or 0,
                    topic=record.topic or "",
                    quota=quota,
                )
        return response

    async def get_user_quota(self, request: v1.GetUserQuotaRequest, caller: Caller) -> v1.GetUserQuotaResponse:
        name = identifier(request.user, "user")
        quota = _found(core.decode_quota(await caller.find(core.encode_get_user_quota(user=name))))
        return v1.GetUserQuotaResponse(quota=quota_message(quota))

    async def set_user_quota(self, request: v1.SetUserQuotaRequest, caller: Caller) -> v1.SetUserQuotaResponse:
        quota = request.quota
        if quota.held_bytes > 0:
            raise Refused(Status.INVALID_COMMAND, "quota.held_bytes: a user holds no bytes, topics do")
        command = core.encode_set_user_quota(
            user=identifier(request.user, "user"),
            sent_bytes_per_second=quota.sent_bytes_per_second,
            read_bytes_per_second=quota.read_bytes_per_second,
            connections=quota.connections,
        )
        await caller.execute(command)
        return v1.SetUserQuotaResponse()

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


def _found(record: _Record | None) -> _Record:
    if record is None:
        raise Refused(Status.RESOURCE_NOT_FOUND, "the user does not exist")
    return record
