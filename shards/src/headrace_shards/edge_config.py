"""Settings of the threads that encrypt."""

from __future__ import annotations

from typing import Annotated

from headrace_settings import Between, Duration, Section


class EdgeSettings(Section):
    """`edge`: the threads that TLS and QUIC run on, apart from those that move messages."""

    threads: Annotated[int, Between(0, 64)] = 0
    """How many; 0: one for each core, up to four."""
    max_handshakes: Annotated[int, Between(1, 100_000)] = 512
    """How many peers of one door may be shaking hands; others wait, and those who take longer than 2 s then give
    way."""
    handshake_timeout: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 m"))] = Duration.parse(
        "10 s"
    )
    """A peer that has not completed its handshake by then is dropped."""
    certificate_check_interval: Annotated[Duration, Between(Duration.parse("10 ms"), Duration.parse("1 day"))] = (
        Duration.parse("10 s")
    )
    """How often certificate files are looked at for a change. The signal USR1 makes it happen at once."""
