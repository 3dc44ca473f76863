"""Settings of a certificate: one pair of names, and the names of earlier releases."""

import pytest

from headrace_chassis.tls import TlsSettings, former_names
from headrace_settings import Section, SettingsError, load


class Config(Section):
    tls: TlsSettings = TlsSettings()


def loaded(file=None, **variables):
    environment = {f"HEADRACE_{name}": value for name, value in variables.items()}
    return load(Config, file=file, environment=environment, former=former_names("tls")).config.tls


def written(directory, *lines):
    file = directory / "service.toml"
    file.write_text("[tls]\n" + "".join(f"{line}\n" for line in lines))
    return file


def test_former_names_mean_the_same(tmp_path):
    expected = loaded(TLS_CERT_FILE="c.pem", TLS_KEY_FILE="k.pem")
    assert [file.name for file in expected.files] == ["c.pem", "k.pem"]
    assert loaded(TLS_CERTIFICATE="c.pem", TLS_KEY="k.pem") == expected
    assert loaded(written(tmp_path, 'certificate = "c.pem"', 'key = "k.pem"')) == expected
    assert loaded(written(tmp_path, 'certificate = "c.pem"', 'key_file = "k.pem"')) == expected


def test_a_setting_has_one_of_its_names(tmp_path):
    with pytest.raises(SettingsError, match="TLS_KEY: is set together with HEADRACE_TLS_KEY_FILE"):
        loaded(TLS_KEY="k.pem", TLS_KEY_FILE="k.pem", TLS_CERT_FILE="c.pem")
    with pytest.raises(SettingsError, match=r"tls\.key: is set together with tls\.key_file"):
        loaded(written(tmp_path, 'cert_file = "c.pem"', 'key = "k.pem"', 'key_file = "k.pem"'))


def test_both_or_neither():
    with pytest.raises(SettingsError, match="together or not at all"):
        loaded(TLS_KEY_FILE="k.pem")
    assert loaded().files is None
    assert loaded().certificate_files("tls") is None
