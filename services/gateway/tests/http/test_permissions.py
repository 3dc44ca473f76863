"""Permissions in the JSON of the HTTP API: the rights of the catalog, in both directions."""

from __future__ import annotations

import msgspec
import pytest

import headrace_core as core
from headrace_gateway.http.models import users
from headrace_proto.rights import GLOBAL_RIGHTS, STREAM_RIGHTS, TOPIC_RIGHTS


@pytest.mark.parametrize(
    ("form", "rights"),
    [(users.GlobalRights, GLOBAL_RIGHTS), (users.StreamRights, STREAM_RIGHTS), (users.TopicRights, TOPIC_RIGHTS)],
)
def test_each_form_has_every_right(form: type[msgspec.Struct], rights: tuple[str, ...]) -> None:
    assert {field.name for field in msgspec.structs.fields(form)} - {"topics"} == {*rights}


@pytest.mark.parametrize("held", [*GLOBAL_RIGHTS])
def test_each_right_comes_back(held: str) -> None:
    of_topic, of_stream = ({name: name == held for name in rights} for rights in (TOPIC_RIGHTS, STREAM_RIGHTS))
    permissions = core.Permissions(
        everywhere=core.GlobalPermissions(**{held: True}),
        streams={3: core.StreamPermissions(**of_stream, topics={5: core.TopicPermissions(**of_topic)})},
    )
    details = users._permissions(permissions)
    assert [name for name in GLOBAL_RIGHTS if getattr(details.everywhere, name)] == [held]
    assert users.native_permissions(details) == permissions
