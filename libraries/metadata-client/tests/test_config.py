"""Settings of a service that identify its cluster."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from headrace_metadata_client import AuthorityError, ClusterSettings
from headrace_proto.cluster_token import authorization
from headrace_settings import Secret

SECRET = Secret("a secret of a cluster, of 32 bytes or more")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"name": ""}, "letters"),
        ({"metadata": ()}, "empty"),
        ({"metadata": ("one",)}, "host:port"),
        ({"metadata": ("127.0.0.1:1", "127.0.0.1:1")}, "twice"),
        ({"secret": Secret("short")}, "32 bytes: create one with `openssl rand -hex 32`"),
        ({"secret": SECRET, "accepted_secret": Secret("short")}, "the accepted_secret has fewer than 32 bytes"),
        ({"accepted_secret": SECRET}, "accepted_secret needs secret"),
        ({"metadata": ("metadata-1:8111",), "authority": "ca.pem"}, "secret is needed"),
        ({"metadata": ("metadata-1:8111",), "secret": SECRET}, "set authority"),
        ({"metadata": ("127.0.0.1.example.org:1",), "secret": SECRET}, "set authority"),
    ],
)
def test_what_is_not_safe_or_not_possible_is_refused(settings, problem):
    with pytest.raises(ValidationError, match=problem):
        ClusterSettings(**settings)


def test_the_settings_name_a_target():
    target = ClusterSettings(name="c", secret=SECRET, metadata=("a:1", "b:2"), authority="/etc/ca.pem").target
    assert (target.addresses, target.authority) == (("a:1", "b:2"), Path("/etc/ca.pem"))
    assert target.call_metadata() == (("authorization", authorization(SECRET.reveal(), "c")),)
    assert ClusterSettings(metadata=("localhost:1", "[::1]:2", "127.0.0.1:3")).target.call_metadata() == ()
    assert ClusterSettings(metadata=("a:1",), secret=SECRET, trusted_network=True).target.authority_pem() is None
    with pytest.raises(AuthorityError):
        target.authority_pem()
