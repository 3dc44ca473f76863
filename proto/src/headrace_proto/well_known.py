"""Values that mean something special wherever they appear."""

from __future__ import annotations

from typing import Final

ROOT_USER_ID: Final = 0
"""The user that is created first. It keeps every right, so that nobody can lock everyone out."""

SERVER_DEFAULT: Final = 0
"""In requests, for a message expiry, a maximum size or a replication factor: what the server is configured with."""

NEVER_EXPIRES: Final = (1 << 64) - 1
"""A message expiry; in a request for an access token, too."""

UNLIMITED: Final = (1 << 64) - 1
"""A maximum size of a topic."""
