"""Steps common to all journeys."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.server_process import PASSWORD, USERNAME


def log_in(page: Page, username: str = USERNAME, password: str = PASSWORD) -> None:
    """Log in and wait for the overview."""
    page.goto("/")
    page.get_by_label("User name").fill(username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def log_in_with_token(page: Page, token: str) -> None:
    """The same with an access token."""
    page.goto("/")
    page.get_by_role("button", name="Use an access token instead").click()
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def visit(page: Page, place: str) -> None:
    """Navigate to a page of the console without a slow reload."""
    page.evaluate("place => { location.hash = place }", f"#/{place}")
