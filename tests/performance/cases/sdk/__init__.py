"""The Python SDK: beside the official client, and topics as tables."""
