"""Conversion of replies of the metadata service to replies of the gateway."""

from __future__ import annotations

from typing import assert_never

from headrace_proto.control.v1 import Reply
from headrace_proto.metadata import v1 as metadata_v1


def control_reply(reply: metadata_v1.Reply) -> Reply:
    """Return the reply for the front."""
    match reply.WhichOneof("body"):
        case "stream":
            return Reply(status=reply.status, stream=reply.stream)
        case "topic":
            return Reply(status=reply.status, topic=reply.topic)
        case "user":
            return Reply(status=reply.status, user=reply.user)
        case "consumer_group":
            return Reply(status=reply.status, consumer_group=reply.consumer_group)
        case "transaction_result":
            return Reply(status=reply.status, transaction_result=reply.transaction_result)
        case "pin_result":
            return Reply(status=reply.status, pin_result=reply.pin_result)
        # Fronts do not send node commands.
        case "node" | "rebalanced" | None:
            return Reply(status=reply.status)
        case unknown:
            assert_never(unknown)
