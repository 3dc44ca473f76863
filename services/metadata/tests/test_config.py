"""Settings: their names, defaults and bounds."""

import pytest

from headrace_metadata.config import StateSettings
from headrace_settings import settings_of


def test_names_and_defaults():
    values = {setting.dotted: str(setting.field.default) for setting in settings_of(StateSettings)}
    assert values == {"enforce_fsync": "True", "snapshot_commands": "1024", "snapshot_journal_size": "16 MiB"}
    assert all(setting.description for setting in settings_of(StateSettings))


@pytest.mark.parametrize("settings", [{"snapshot_commands": 0}, {"snapshot_journal_size": "1 KiB"}, {"unknown": 1}])
def test_bounds(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        StateSettings(**settings)
