"""Source address of requests forwarded by trusted proxies."""

import pytest
from pydantic import ValidationError

from headrace_gateway.access.proxies import Proxies, ProxyConfig


@pytest.fixture
def proxies():
    return Proxies(ProxyConfig(trusted=("10.0.0.7", "fd00::/64")))


def test_a_balancers_word_counts(proxies):
    assert proxies.source_of("10.0.0.7", ["203.0.113.9"]) == "203.0.113.9"
    assert proxies.source_of("::ffff:10.0.0.7", ["203.0.113.9"]) == "203.0.113.9"
    assert proxies.source_of("fd00::5", ["203.0.113.9", "10.0.0.7"]) == "203.0.113.9"


def test_headers_of_untrusted_peers_do_not_count(proxies):
    """Forwarded addresses of an untrusted client are ignored, sent directly or through a proxy."""
    assert proxies.source_of("203.0.113.9", ["198.51.100.1"]) == "203.0.113.9"
    assert proxies.source_of("10.0.0.7", ["198.51.100.1, 203.0.113.9"]) == "203.0.113.9"
    assert proxies.source_of("10.0.0.7", ["10.0.0.7", "203.0.113.9"]) == "203.0.113.9"


def test_without_an_address_it_is_the_balancers_own(proxies):
    for forwarded in ([], [""], ["unknown"], ["203.0.113.9, <script>"], ["fe80::1%\udcff"], ["fe80::1%" + "x" * 300]):
        assert proxies.source_of("10.0.0.7", forwarded) == "10.0.0.7"


def test_without_balancers_no_word_counts():
    assert Proxies(ProxyConfig()).source_of("127.0.0.1", ["203.0.113.9"]) == "127.0.0.1"


def test_grpc_metadata_count_only_if_proxies_set_them(proxies):
    assert proxies.source_of_call("10.0.0.7", ["203.0.113.9"]) == "10.0.0.7"
    appending = Proxies(ProxyConfig(trusted=("10.0.0.7",), grpc=True))
    assert appending.source_of_call("10.0.0.7", ["198.51.100.1, 203.0.113.9"]) == "203.0.113.9"
    assert appending.source_of_call("203.0.113.9", ["198.51.100.1"]) == "203.0.113.9"


def test_settings_are_networks():
    assert ProxyConfig(trusted=("10.0.0.7", "10.1.2.3/16")).networks == (("10.0.0.7", 32), ("10.1.0.0", 16))
    with pytest.raises(ValidationError, match="balancer"):
        ProxyConfig(trusted=("balancer",))
