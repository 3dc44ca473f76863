"""Users."""

from __future__ import annotations

from aiohttp import web

import headrace_core as core
from headrace_gateway.http.call import Call
from headrace_gateway.http.lists import page
from headrace_gateway.http.models.catalog import Page
from headrace_gateway.http.models.users import (
    CreateUserBody,
    PasswordBody,
    PermissionsBody,
    UpdateUserBody,
    UserAnswer,
    UserDetails,
    native_permissions,
    user,
    user_details,
)
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.json_api.errors import Missing, Refused
from headrace_proto.errors import Status
from headrace_proto.limits import PASSWORD_BYTES, USERNAME_BYTES

routes = Routes()


@routes.add("GET", "/users", tag="users", query=Page, answer=list[UserAnswer], errors=(403,), has_etag=True)
async def get_users(call: Call[Page, Nothing]) -> web.Response:
    """All users."""
    users = [user(record) for record in core.decode_users(await call.ask(core.encode_get_users()))]
    return page(call, users, lambda found: found.id)


@routes.add("GET", "/users/{user_id}", tag="users", answer=UserDetails, errors=(400, 403, 404))
async def get_user(call: Call[Nothing, Nothing]) -> UserDetails:
    """One user with its permissions. Users need no permission to see themselves."""
    found = core.decode_user(await call.ask(core.encode_get_user(user=call.identifier("user_id"))))
    if found is None:
        raise Missing
    return user_details(found)


@routes.add("POST", "/users", tag="users", body=CreateUserBody, answer=UserDetails, errors=(400, 403, 409))
async def create_user(call: Call[Nothing, CreateUserBody]) -> UserDetails:
    """Create a user. Without permissions the user may see little but itself."""
    body = call.body
    _check_username(body.username)
    _check_password(body.password)
    created = core.decode_user(
        await call.ask(
            core.encode_create_user(
                username=body.username,
                password=body.password,
                status=body.status,
                permissions=native_permissions(body.permissions),
            )
        )
    )
    if created is None:
        raise Missing
    return user_details(created)


@routes.add("PUT", "/users/{user_id}", tag="users", body=UpdateUserBody, success=204, errors=(400, 403, 404, 409))
async def update_user(call: Call[Nothing, UpdateUserBody]) -> None:
    """Rename a user or change its status. The tokens of an inactive user end at once."""
    body = call.body
    if body.username is not None:
        _check_username(body.username)
    await call.ask(
        core.encode_update_user(
            user=call.identifier("user_id"), username=body.username, status=body.status or body.user_status
        )
    )


@routes.add(
    "PUT", "/users/{user_id}/permissions", tag="users", body=PermissionsBody, success=204, errors=(400, 403, 404, 409)
)
async def update_permissions(call: Call[Nothing, PermissionsBody]) -> None:
    """Replace the permissions of a user. The permissions of root cannot be changed."""
    await call.ask(
        core.encode_update_permissions(
            user=call.identifier("user_id"), permissions=native_permissions(call.body.permissions)
        )
    )


@routes.add("PUT", "/users/{user_id}/password", tag="users", body=PasswordBody, success=204, errors=(400, 403, 404))
async def change_password(call: Call[Nothing, PasswordBody]) -> None:
    """Change a password. Requires the current password; all tokens of the user end."""
    _check_password(call.body.current_password)
    _check_password(call.body.new_password)
    await call.ask(
        core.encode_change_password(
            user=call.identifier("user_id"),
            current_password=call.body.current_password,
            new_password=call.body.new_password,
        )
    )


@routes.add("DELETE", "/users/{user_id}", tag="users", success=204, errors=(400, 403, 404, 409))
async def delete_user(call: Call[Nothing, Nothing]) -> None:
    """Delete a user. Its tokens end at once."""
    await call.ask(core.encode_delete_user(user=call.identifier("user_id")))


def _check_username(username: str) -> None:
    if len(username.encode()) not in USERNAME_BYTES:
        raise Refused(Status.INVALID_USERNAME)


def _check_password(password: str) -> None:
    if len(password.encode()) not in PASSWORD_BYTES:
        raise Refused(Status.INVALID_PASSWORD)
