"""Values with a special meaning wherever they occur."""

from __future__ import annotations

from typing import Final

ROOT_USER_ID: Final = 0
"""Id of the first user. This user keeps all permissions, so that the cluster always has an administrator."""

SERVER_DEFAULT: Final = 0
"""Request value of a message expiry, a maximum size or a replication factor: the server's default."""

NEVER_EXPIRES: Final = (1 << 64) - 1
"""Value of a message expiry; also used in a request for an access token."""

UNLIMITED: Final = (1 << 64) - 1
"""Value of the maximum size of a topic."""
