"""Settings of the encryption threads."""

from __future__ import annotations

from typing import Annotated

from headrace_settings import Between, Duration, Section, SharedBy


class EdgeSettings(Section):
    """`edge`: the threads for TLS and QUIC, apart from those of the shards."""

    threads: Annotated[int, Between(0, 64)] = 0
    """Number of threads; 0: one for each core, up to four."""
    max_handshakes: Annotated[int, Between(1, 100_000), SharedBy.ALL] = 512
    """Maximum number of concurrent handshakes of one listener. Others wait, and handshakes that take longer than 2 s
    are aborted in their favour.
    """
    handshake_timeout: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 m"))] = Duration.parse(
        "10 s"
    )
    """Time after which a peer that has not completed its handshake is disconnected."""
    certificate_check_interval: Annotated[Duration, Between(Duration.parse("10 ms"), Duration.parse("1 day"))] = (
        Duration.parse("10 s")
    )
    """Interval between checks of the certificate files for changes. The signal USR1 triggers a check at once."""
