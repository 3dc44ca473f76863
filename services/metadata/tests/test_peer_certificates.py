"""Changes of peer certificates are logged once, and no failure ends the periodic check (CTL-6)."""

import logging

from headrace_metadata.peer_certificates import PeerCertificates


class Files:
    """A native replica with these results, one after the other."""

    def __init__(self, found):
        self.found = found

    def renew_certificates(self):
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


async def test_each_finding_is_logged_once(caplog):
    caplog.set_level(logging.INFO)
    bad, worse = RuntimeError("no PEM"), RuntimeError("gone")
    certificates = PeerCertificates(Files([False, bad, bad, False, worse, True, bad]))
    for _ in range(7):
        await certificates.look()
    assert [(record.levelname, record.message.rpartition(": ")[2]) for record in caplog.records] == [
        ("WARNING", "no PEM"),
        ("WARNING", "gone"),
        ("INFO", "replica certificate replaced"),
        ("WARNING", "no PEM"),
    ]
