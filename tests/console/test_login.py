"""Login and enforced logout."""

from __future__ import annotations

import urllib.error

import pytest
from playwright.sync_api import Page, expect

from tests.console.api import Api
from tests.console.steps import log_in, visit


def test_a_wrong_password_is_reported(page: Page) -> None:
    page.goto("/")
    page.get_by_label("User name").fill("nobody")
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()


def test_the_token_is_kept_for_the_tab_alone(page: Page) -> None:
    log_in(page)
    kept = page.evaluate("() => [Object.keys(localStorage), document.cookie, Object.keys(sessionStorage)]")
    assert kept == [[], "", ["headrace.session"]]
    page.reload()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("User name")).to_be_visible()
    assert page.evaluate("() => Object.keys(sessionStorage)") == []


def test_who_is_deactivated_is_thrown_out_with_a_reason(page: Page, api: Api, name: str) -> None:
    api("POST", "/users", {"username": name, "password": "secret", "status": "active", "permissions": None})
    log_in(page, name, "secret")
    api("PUT", f"/users/{name}", {"status": "inactive"})
    expect(page.get_by_role("alert")).to_contain_text("You were logged out")
    expect(page.get_by_label("User name")).to_be_visible()


def test_a_login_is_renewed_while_one_looks(page: Page, api: Api, name: str) -> None:
    topic = api.topic(name)
    page.clock.install()
    log_in(page)
    visit(page, f"streams/{name}/topics/orders/live")
    expect(page.get_by_text("live · 0 received")).to_be_visible()
    kept = "JSON.parse(sessionStorage.getItem('headrace.session')).token"
    token = page.evaluate(f"() => {kept}")
    # The token is valid for an hour.
    page.clock.fast_forward("50:00")
    page.wait_for_function(f"token => {kept} !== token", arg=token)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        api("GET", "/stats", token=token)
    # Live messages continue over a connection with the new token, including messages sent in between.
    for number in range(10):
        api.send(topic, [b"message %d" % number])
        page.wait_for_timeout(50)
    expect(page.get_by_text("10 received")).to_be_visible()
    expect(page.get_by_text("message 9")).to_be_visible()
