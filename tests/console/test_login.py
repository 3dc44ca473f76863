"""Coming in, and being thrown out."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.console.api import Api
from tests.console.steps import log_in


def test_a_wrong_password_is_told(page: Page) -> None:
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
