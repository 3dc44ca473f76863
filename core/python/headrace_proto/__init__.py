"""Protobuf messages (``headrace_proto.<package>.v1``) and status codes (``headrace_proto.errors``) of Headrace."""
