"""Users, rights, the log, settings, clients."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

import headrace_core
from headrace_proto.rights import GLOBAL_RIGHTS, STREAM_RIGHTS
from tests.console.api import Api
from tests.console.conftest import OpenContext
from tests.console.steps import log_in, visit
from tests.server_process import PASSWORD, USERNAME, ServerProcess


@pytest.mark.long
def test_rights_are_given_and_taken(page: Page, api: Api, name: str) -> None:
    api.topic(name)
    log_in(page)
    page.get_by_role("link", name="Users").click()
    page.get_by_role("button", name="Create a user").click()
    page.get_by_label("Name").fill("gardener")
    page.get_by_label("Password").fill("secret")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="gardener")).to_be_visible()
    page.get_by_role("group", name="Everywhere").get_by_label("Read streams").check()
    page.get_by_label("Rights on a stream").select_option(name)
    page.get_by_role("button", name="Add").click()
    stream = page.get_by_role("group", name=f"Stream {name}")
    stream.get_by_label("Send messages").check()
    stream.get_by_label(f"Rights on a topic of {name}").select_option("orders")
    stream.get_by_role("button", name="Add").click()
    page.get_by_role("group", name="Topic orders").get_by_label("Poll messages").check()
    page.get_by_role("button", name="Save rights").click()
    expect(page.get_by_text("The rights of gardener were saved.")).to_be_visible()
    permissions = api("GET", "/users/gardener")["permissions"]
    assert [right for right, given in permissions["global"].items() if given] == ["read_streams"]
    (of_stream,) = permissions["streams"].values()
    assert (of_stream["send_messages"], of_stream["manage_stream"]) == (True, False)
    assert [topic["poll_messages"] for topic in of_stream["topics"].values()] == [True]
    page.get_by_role("button", name="Deactivate").click()
    expect(page.get_by_text("inactive")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("to confirm").fill("gardener")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Users")).to_be_visible()
    expect(page.get_by_role("link", name="gardener")).to_have_count(0)


def granted(rights: dict[str, bool]) -> list[str]:
    return [right for right, given in rights.items() if given is True]


@pytest.mark.long
def test_a_right_revoked_meanwhile_stays_revoked(page: Page, api: Api, name: str) -> None:
    api.topic(name)
    stream = str(api("GET", f"/streams/{name}")["id"])
    user = api("POST", "/users", {"username": "forester", "password": "secret", "permissions": None})
    path = f"/users/{user['id']}"
    rights = dict.fromkeys(GLOBAL_RIGHTS, False)
    of_stream = dict.fromkeys(STREAM_RIGHTS, False) | {"topics": None}

    def give(*names: str, **streams: dict[str, Any]) -> None:
        everywhere = rights | dict.fromkeys(names, True)
        body = {"permissions": {"global": everywhere, "streams": streams or None}}
        api("PUT", f"{path}/permissions", body)

    give("read_streams", "manage_users")
    log_in(page)
    visit(page, f"users/{user['id']}")
    everywhere = page.get_by_role("group", name="Everywhere")
    expect(everywhere.get_by_label("Manage users")).to_be_checked()
    give("read_streams", **{stream: of_stream | {"send_messages": True}})
    everywhere.get_by_label("Read topics").check()
    page.get_by_role("button", name="Save rights").click()
    expect(page.get_by_text("The rights of forester were saved.")).to_be_visible()
    found = api("GET", path)["permissions"]
    assert granted(found["global"]) == ["read_streams", "read_topics"]
    assert granted(found["streams"][stream]) == ["send_messages"]
    # The form shows what was saved.
    expect(everywhere.get_by_label("Manage users")).not_to_be_checked()
    fieldset = page.get_by_role("group", name=f"Stream {name}")
    expect(fieldset.get_by_label("Send messages")).to_be_checked()

    # Nothing is sent if both have changed the same.
    give("read_streams")
    fieldset.get_by_label("Poll messages").check()
    page.get_by_role("button", name="Save rights").click()
    expect(page.get_by_role("alert")).to_contain_text("Someone else has changed the same fields meanwhile.")
    expect(fieldset).to_have_count(0)
    expect(everywhere.get_by_label("Read topics")).not_to_be_checked()
    found = api("GET", path)["permissions"]
    assert (granted(found["global"]), found["streams"]) == (["read_streams"], None)
    everywhere.get_by_label("Read users").check()
    expect(page.get_by_text("The rights of forester were saved.")).to_have_count(0)
    page.get_by_role("button", name="Save rights").click()
    expect(page.get_by_text("The rights of forester were saved.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert granted(api("GET", path)["permissions"]["global"]) == ["read_users", "read_streams"]


def test_a_missing_right_is_reported(page: Page, api: Api) -> None:
    api("POST", "/users", {"username": "visitor", "password": "secret", "status": "active", "permissions": None})
    page.goto("/")
    page.get_by_label("User name").fill("visitor")
    page.get_by_label("Password").fill("secret")
    page.keyboard.press("Enter")
    for place in ("", "streams", "groups", "clients", "cluster", "users", "logs", "settings"):
        visit(page, place)
        expect(page.get_by_role("alert")).to_contain_text("does not have the right")


def test_the_log_is_live(page: Page, api: Api) -> None:
    log_in(page)
    page.get_by_role("link", name="Log", exact=True).click()
    rows = page.get_by_role("region", name="Records").get_by_role("row")
    expect(rows.filter(has_text="certificate of").first).to_be_visible()
    page.get_by_label("Contains").fill("no such record")
    expect(page.get_by_text("There are no such records.")).to_be_visible()
    page.get_by_label("Contains").fill("")
    page.get_by_label("From level").select_option("error")
    expect(page.get_by_text("There are no such records.")).to_be_visible()


def test_settings_hold_no_secrets(page: Page, shared_server: ServerProcess) -> None:
    log_in(page)
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Contains").fill("root.password")
    expect(page.get_by_role("row", name="root.password")).to_contain_text("set, and not shown")
    page.get_by_label("Contains").fill("")
    page.get_by_label("Only what is no default").check()
    expect(page.get_by_role("row", name="tcp.address")).to_contain_text(shared_server.address)
    expect(page.get_by_role("row", name="heartbeat.enabled")).to_have_count(0)


@pytest.mark.long
def test_clients_come_and_go(page: Page, shared_server: ServerProcess) -> None:
    log_in(page)
    page.get_by_role("link", name="Clients").click()
    client = headrace_core.Client.connect(shared_server.address)
    client.login(USERNAME, PASSWORD)
    row = page.get_by_role("region", name="Clients").get_by_role("row", name="TCP")
    expect(row).to_contain_text("iggy")
    client.close()
    expect(row).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_unless_one_chooses(open_context: OpenContext, scheme: str) -> None:
    page = open_context(color_scheme=scheme).new_page()
    log_in(page)
    other = "dark" if scheme == "light" else "light"

    def brightness() -> int:
        colour = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
        return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))

    assert (brightness() > 400) == (scheme == "light")
    page.get_by_label("Colours").select_option(other)
    assert (brightness() > 400) == (other == "light")
    page.reload()
    assert (brightness() > 400) == (other == "light")
    page.get_by_label("Colours").select_option("system")
    assert (brightness() > 400) == (scheme == "light")
