"""Limits of the gRPC listener that belong together."""

import pytest

from headrace_gateway.config import GrpcConfig


def test_the_largest_request_fits():
    GrpcConfig(max_request_size="1 MiB", max_memory="8 MiB")
    with pytest.raises(ValueError, match="at least eight times max_request_size"):
        GrpcConfig(max_request_size="2 MiB", max_memory="8 MiB")
