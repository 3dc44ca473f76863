"""Accessibility: keyboard, phone, dark and light mode, screen reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.api import Api
from tests.console.conftest import OpenContext, Screenshot
from tests.console.steps import log_in, visit
from tests.server_process import PASSWORD, USERNAME

AXE = Path(__file__).resolve().parents[2] / "web/node_modules/axe-core/axe.min.js"
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="package")
def places(shared_server: Any) -> dict[str, str]:
    """Every page with content."""
    api = Api(shared_server.http_url)
    stream = "a-stream-with-a-rather-long-name-that-does-not-end-soon_and_with_no_place_to_break_it"
    topic = api.topic(stream, partitions=3)
    order = b'{"order": 4711, "customer": "' + b"x" * 300 + b'"}'
    for partition in range(3):
        api.send(topic, [order] * 5, partition=partition)
    api("POST", f"{topic}/consumer-groups", {"name": "billing"})
    api("PUT", f"{topic}/consumer-offsets", {"consumer_id": 1, "partition_id": 0, "offset": 2})
    api("POST", "/personal-access-tokens", {"name": "nightly", "expiry": 0})
    user = api("POST", "/users", {"username": "reader", "password": "secret", "status": "active", "permissions": None})
    path = f"streams/{stream}/topics/orders"
    return {
        "overview": "",
        "streams": "streams",
        "stream": f"streams/{stream}",
        "messages": path,
        "partitions": f"{path}/partitions",
        "live": f"{path}/live",
        "consumers": f"{path}/consumers",
        "send": f"{path}/send",
        "topic-settings": f"{path}/settings",
        "groups": "groups",
        "clients": "clients",
        "connectors": "connectors",
        "cluster": "cluster",
        "users": "users",
        "user": f"users/{user['id']}",
        "root": "users/0",
        "tokens": "tokens",
        "log": "logs",
        "settings": "settings",
        "nowhere": "nowhere",
    }


def settled(page: Page, called: str) -> None:
    """Wait until all requests of a page are complete."""
    if called == "messages":
        expect(page.get_by_text("15 messages · 0 older")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_text("Loading…")).to_have_count(0)
    expect(page.get_by_text("connecting ·")).to_have_count(0)


def violations(page: Page, scheme: str = "light") -> list[str]:
    """Accessibility violations found by axe; a dark page differs from a light one in its colours alone."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if scheme == "dark":
        options["runOnly"] = ["color-contrast"]
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [
        f"{violation['id']}: {node['html'][:160]} {node['any'][0]['message'] if node['any'] else ''}"
        for violation in found
        if violation["impact"] in SERIOUS
        for node in violation["nodes"]
    ]


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_description_of_the_api_can_be_read(open_context: OpenContext, scheme: str, screenshot: Screenshot) -> None:
    page = open_context(color_scheme=scheme, bypass_csp=True).new_page()
    page.goto("/docs")
    # A link opens what it leads to.
    page.evaluate("() => { location.hash = 'create_topic' }")
    call = page.get_by_text("curl -X POST").and_(page.get_by_text('/streams/<stream_id>/topics"'))
    expect(call).to_be_visible()
    screenshot(page, f"docs-{scheme}")
    assert violations(page, scheme) == []


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_in_the_way(
    open_context: OpenContext, places: dict[str, str], scheme: str, screenshot: Screenshot
) -> None:
    page = open_context(color_scheme=scheme).new_page()
    page.goto("/")
    expect(page.get_by_label("User name")).to_be_visible()
    found = {"login": violations(page, scheme)}
    log_in(page)
    for called, place in places.items():
        visit(page, place)
        settled(page, called)
        found[called] = violations(page, scheme)
        screenshot(page, f"{called}-{scheme}")
    visit(page, "streams")
    page.get_by_role("button", name="Create a stream").click()
    found["dialog"] = violations(page, scheme)
    screenshot(page, f"dialog-{scheme}")
    assert {called: what for called, what in found.items() if what} == {}


@pytest.mark.long
def test_no_page_is_wider_than_a_phone(
    open_context: OpenContext, places: dict[str, str], screenshot: Screenshot
) -> None:
    page = open_context(width=360, height=740).new_page()
    page.goto("/")
    wide = {"login": width(page)}
    log_in(page)
    for called, place in places.items():
        visit(page, place)
        settled(page, called)
        wide[called] = width(page)
        screenshot(page, f"{called}-phone")
    page.get_by_role("button", name="Menu").click()
    wide["menu"] = width(page)
    screenshot(page, "menu-phone")
    page.get_by_role("link", name="Streams").click()
    expect(page.get_by_role("link", name="Settings")).to_be_hidden()
    page.get_by_role("button", name="Create a stream").click()
    wide["dialog"] = width(page)
    screenshot(page, "dialog-phone")
    assert {called: found for called, found in wide.items() if found > 360} == {}


def width(page: Page) -> int:
    return int(page.evaluate("() => document.documentElement.scrollWidth"))


def tab_to(page: Page, called: str) -> None:
    """Press Tab until the element of this name has visible focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => {
                const element = document.activeElement;
                const style = getComputedStyle(element);
                const name = element.getAttribute("aria-label")
                    ?? element.labels?.[0]?.textContent ?? element.textContent;
                return {name: name.trim(), outline: style.outlineStyle, body: element === document.body};
            }"""
        )
        assert focused["body"] or focused["outline"] != "none", focused
        if focused["name"] == called:
            return
    raise AssertionError(f"Tab never came to {called}")


def test_everything_by_keyboard(page: Page, name: str) -> None:
    page.goto("/")
    expect(page.get_by_label("User name")).to_be_focused()
    page.keyboard.type(USERNAME)
    tab_to(page, "Password")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()

    tab_to(page, "Skip to content")
    expect(page.get_by_role("link", name="Skip to content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()

    tab_to(page, "Streams")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Streams")).to_be_focused()
    tab_to(page, "Create a stream")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name")).to_be_focused()
    # The focus stays in the dialog after any number of Tabs, apart from the browser's own controls.
    for _ in range(8):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "() => document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Create a stream")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=name)).to_be_visible()
    tab_to(page, name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=name)).to_be_focused()
    tab_to(page, "Create a topic")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    tab_to(page, "orders")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="orders")).to_be_focused()
    tab_to(page, "Send")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Payload")).to_be_visible()
    tab_to(page, "Payload")
    page.keyboard.type("by hand")
    tab_to(page, "Send")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 message sent.")).to_be_visible()
    tab_to(page, "Log out")
    page.keyboard.press("Space")
    expect(page.get_by_label("User name")).to_be_focused()
