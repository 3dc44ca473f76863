"""URIs in arguments. They are logged, reported, and visible to all users of the machine."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.values import Unsuitable, words

SCHEMES: Final = frozenset({"s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"})
"""URI schemes of object stores."""
PLACES: Final = "a path, file:///..., s3://..., gs://... or az://..."


def uri(text: str) -> str:
    """Parse a URI without secrets.

    Raises:
        OptionError: The URI has a password or a signature, which the error does not repeat.
    """
    if "://" in text and not text.startswith("file:"):
        try:
            parts = urlsplit(text)
        except ValueError:
            raise OptionError("this is not a URI") from None
        if parts.password is not None or parts.query:
            raise OptionError(
                "a URI must not contain a password or signature: other users could read them. Credentials are for the "
                "environment"
            )
    return words(text)


def place(text: str) -> str:
    """Parse a directory, or a location in an object store.

    Raises:
        OptionError: The URI has a password or a signature.
    """
    uri(text)
    scheme, colon, _ = text.partition("://")
    if colon and scheme not in SCHEMES | {"file"}:
        raise Unsuitable(PLACES)
    return text
