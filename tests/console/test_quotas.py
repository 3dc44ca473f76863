"""Quotas of users and topics (CTL-13)."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.console.api import Api
from tests.console.steps import log_in, visit


def test_quotas_are_set_and_removed(page: Page, api: Api, name: str) -> None:
    topic = api.topic(name)
    body = {"username": name[-20:], "password": "secret", "status": "active", "permissions": None}
    user = api("POST", "/users", body)["id"]
    log_in(page)
    visit(page, f"users/{user}")
    quota = page.get_by_role("form", name="Quota of the user")
    quota.get_by_label("Sent per second").fill("10 MiB")
    quota.get_by_label("Connections").fill("5")
    quota.get_by_role("button", name="Save the quota").click()
    expect(page.get_by_text("The quota of the user was saved.")).to_be_visible()
    saved = {"sent_bytes_per_second": 10 * 2**20, "read_bytes_per_second": 0, "connections": 5}
    assert api("GET", f"/users/{user}/quota") == saved
    quota.get_by_label("Read per second").fill("10")
    quota.get_by_role("button", name="Save the quota").click()
    expect(page.get_by_text("A rate is 0 for no limit, or at least 1024.")).to_be_visible()
    for label in ("Sent per second", "Read per second", "Connections"):
        quota.get_by_label(label).fill("")
    # The error goes before the server has the quota, and the fields are empty already.
    with page.expect_response(lambda response: response.request.method == "PUT"):
        quota.get_by_role("button", name="Save the quota").click()
    expect(page.get_by_text("A rate is 0 for no limit, or at least 1024.")).to_have_count(0)
    expect(quota.get_by_label("Connections")).to_have_value("")
    assert api("GET", f"/users/{user}/quota") == dict.fromkeys(saved, 0)

    # A limit that no number of JavaScript holds stays what it was.
    api("PUT", f"{topic}/quota", {"held_bytes": 2**64 - 2, "read_bytes_per_second": 2048})
    visit(page, f"streams/{name}/topics/orders/settings")
    quota = page.get_by_role("form", name="Quota of the topic")
    expect(quota.get_by_label("Read per second")).to_have_value("2 KiB")
    quota.get_by_label("Read per second").fill("4 KiB")
    quota.get_by_role("button", name="Save the quota").click()
    expect(page.get_by_text("The quota of the topic was saved.")).to_be_visible()
    found = {"sent_bytes_per_second": 0, "read_bytes_per_second": 4096, "held_bytes": 2**64 - 2}
    assert api("GET", f"{topic}/quota") == found
