"""Addresses of PostgreSQL in settings."""

from __future__ import annotations

from typing import Annotated

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import AfterValidator

from headrace_settings import Secret


def _checked(url: Secret) -> Secret:
    try:
        conninfo_to_dict(url.reveal())
    except psycopg.ProgrammingError:
        # The text of libpq may have a part of the password.
        raise ValueError(
            "is not an address of PostgreSQL: write postgresql://USER:PASSWORD@HOST:5432/DATABASE, with %40 for @, "
            "%2F for / and %3A for : within the password"
        ) from None
    return url


DatabaseUrl = Annotated[Secret, AfterValidator(_checked)]
"""Address of a database as libpq understands it."""
