"""Texts that say where something is. They are logged, reported, and seen by everybody on the machine."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.values import Unsuitable, words

SCHEMES: Final = frozenset({"s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"})
"""Of object stores."""
PLACES: Final = "a path, file:///..., s3://..., gs://... or az://..."


def uri(text: str) -> str:
    """Any place, without anything that is secret.

    Raises:
        OptionError: It has a password in it, or a signature; the text does not repeat it.
    """
    if "://" in text and not text.startswith("file:"):
        try:
            parts = urlsplit(text)
        except ValueError:
            raise OptionError("this is no URI") from None
        if parts.password is not None or parts.query:
            raise OptionError(
                "a URI has no password and no signature in it: everybody could see them. Credentials are for the "
                "environment"
            )
    return words(text)


def place(text: str) -> str:
    """A folder, or a place in an object store.

    Raises:
        OptionError: It has a password in it, or a signature.
    """
    uri(text)
    scheme, colon, _ = text.partition("://")
    if colon and scheme not in SCHEMES | {"file"}:
        raise Unsuitable(PLACES)
    return text
