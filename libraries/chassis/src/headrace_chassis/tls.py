"""Settings of a certificate: the same names in every section that has one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from pydantic import model_validator

from headrace_chassis.certificates import CertificateFiles
from headrace_settings import Section


class TlsSettings(Section):
    """`tls`: certificate that this process presents to its peers."""

    cert_file: str | None = None
    """PEM file with the certificate, followed by the intermediate certificates. A changed file is detected and used for
    new connections; an unusable or currently invalid certificate is reported, and the previous one stays in use.
    """
    key_file: str | None = None
    """PEM file with the private key (PKCS#8, PKCS#1 or SEC1)."""

    @model_validator(mode="after")
    def _all_or_nothing(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file are given together or not at all")
        return self

    @property
    def files(self) -> tuple[Path, Path] | None:
        """Certificate and key; None if they are not set."""
        if self.cert_file is None or self.key_file is None:
            return None
        return Path(self.cert_file), Path(self.key_file)

    def certificate_files(self, section: str) -> CertificateFiles | None:
        """Describe the files to a server that requests no certificate of its clients; None if they are not set.

        Args:
            section: Section of these settings, for messages.
        """
        files = self.files
        return None if files is None else CertificateFiles(section=section, chain=files[0], key=files[1])


def former_names(section: str) -> Mapping[str, str]:
    """Return the names of these settings in releases that called them `certificate` and `key`, each with its name now.

    Args:
        section: Dotted name of the section.
    """
    return {f"{section}.{former}": f"{section}.{name}" for former, name in _FORMER.items()}


_FORMER: Final = {"certificate": "cert_file", "key": "key_file"}
