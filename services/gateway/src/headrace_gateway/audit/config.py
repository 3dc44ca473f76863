"""Settings of the audit trail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from headrace_gateway.audit.syslog import SyslogServer
from headrace_settings import Between, Section, SharedBy, Size


class AuditConfig(Section):
    """`audit`: the record of logins, refusals and changes."""

    enabled: bool = True
    """Write the audit trail."""

    directory: Path | None = None
    """Directory of the audit trail, for this process alone. Not set: `audit` in the data directory. A gateway process
    has only a temporary one, so its audit trail is then deleted when it stops.
    """

    max_file_size: Annotated[Size, Between(Size.parse("4 KiB"), Size.parse("1 GiB")), SharedBy.SERVER] = Size.parse(
        "8 MiB"
    )
    """Size at which a file of the audit trail is full and the next file is started."""

    max_files: Annotated[int, Between(2, 10_000), SharedBy.SERVER] = 16
    """Maximum number of files of each kind: changes by administrators; changes of streams and topics; what users change
    for themselves; logins; failed logins and refusals. The oldest file of a kind is deleted beyond this number.
    """

    syslog: SyslogServer | None = None
    """Server that gets each event as well, as a message of RFC 5424 with the line of JSON as its text. Requests do not
    wait for it: events that it does not take are counted as lost (`headrace_audit_lost_events_total`, `export`). The
    certificate of a server with `tls` is checked against the authorities of the system.
    """
