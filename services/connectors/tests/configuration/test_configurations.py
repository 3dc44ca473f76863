"""Versions of configurations: who wins, what is checked, what is shown, and what survives."""

from __future__ import annotations

import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_connectors.configuration.configurations import ANY_STATE, Condition, Configurations, Unusable
from headrace_connectors.configuration.errors import ChangedMeanwhile, NotChangeable, NotFound, NotStored, WrongKind
from headrace_connectors.configuration.store import VersionStore
from headrace_connectors.contract import ConnectorError
from headrace_connectors.pipeline_file.pipeline import parse_pipeline
from headrace_connectors.pipeline_file.secrets import is_by_reference
from headrace_connectors.plugins.discovery import Plugins
from headrace_connectors.versions import VERSIONS_MAX, Author, VersionLog
from headrace_settings import SettingsError

TOP = '[http]\ntoken = "t"\n[http.configuration]\nenabled = true\n'
RANDOM = '[sources.made]\nplugin = "random"\nstream = "s"\ntopic = "t"\n'
ANNA = Author("anna", "why")


class Applied:
    """Records what is put into effect."""

    def __init__(self) -> None:
        self.specs: list[tuple[str, Any]] = []

    async def __call__(self, key: str, spec: Any) -> None:
        self.specs.append((key, spec))


@pytest.fixture
def applied() -> Applied:
    return Applied()


@pytest.fixture
def configurations(tmp_path: Path) -> Callable[..., Configurations]:
    """Configurations of a pipeline file, as after a start of the process."""

    def opened(text: str = RANDOM, top: str = TOP, **environment: str) -> Configurations:
        pipeline = parse_pipeline(tmp_path / "pipeline.toml", top + text, Plugins(), environment)
        store = VersionStore(tmp_path / "configuration")
        found = Configurations(pipeline.definitions, pipeline.http.configuration, store)
        found.opened = found.open()  # type: ignore[attr-defined] - for the tests
        return found

    return opened


def definition(**settings: Any) -> dict[str, Any]:
    return {"plugin": "random", "stream": "s", "topic": "t", "settings": settings}


def active(found: Configurations, key: str = "made") -> dict[str, Any] | None:
    version = found.log("connectors", key).active
    assert version is not None
    return version.definition


async def test_a_change_is_a_version_that_survives_a_restart(
    configurations: Callable[..., Configurations], applied: Applied
) -> None:
    """CON-31: versions are numbered, keep their authors, and the newest change is in effect after a start."""
    found = configurations()
    assert [one.key for one in found.opened] == ["made"]
    log = await found.change("sources", "made", definition(seed=1), ANNA, ANY_STATE, applied)
    assert [(one.number, one.origin, one.author, one.comment) for one in log.versions] == [
        (1, "file", "pipeline file", "from pipeline.toml"),
        (2, "http", "anna", "why"),
    ]
    assert [key for key, _ in applied.specs] == ["made"]
    assert applied.specs[0][1].source.settings.seed == 1
    again = configurations()
    assert again.log("connectors", "made") == log
    assert again.opened[0].source.settings.seed == 1


async def test_an_edited_file_is_the_newest_change(
    configurations: Callable[..., Configurations], applied: Applied
) -> None:
    """CON-31: a table that differs from the last one seen wins over earlier changes, an unchanged one does not."""
    await configurations().change("sources", "made", definition(seed=1), ANNA, ANY_STATE, applied)
    edited = RANDOM + "[sources.made.settings]\nseed = 2\n"
    found = configurations(edited)
    assert (active(found) or {})["settings"] == {"seed": 2}
    await found.activate("connectors", "made", 2, ANNA, ANY_STATE, applied)
    assert (active(configurations(edited)) or {})["settings"] == {"seed": 1}
    other = RANDOM.replace("made", "other")
    removed = configurations(other)
    assert active(removed) is None
    assert [one.key for one in removed.opened] == ["other"]


async def test_connectors_of_http_alone_stay(configurations: Callable[..., Configurations], applied: Applied) -> None:
    """CON-31: a connector that the file never had is not touched by it, and a file may describe none."""
    found = configurations("")
    await found.change("sources", "new", definition(), ANNA, Condition(0), applied)
    assert [one.key for one in configurations("").opened] == ["new"]
    await found.delete("connectors", "new", ANNA, ANY_STATE, applied)
    assert applied.specs[-1] == ("new", None)
    assert configurations("").opened == []
    log = await found.activate("connectors", "new", 1, ANNA, ANY_STATE, applied)
    assert log.active is not None
    assert (log.active.number, log.epoch) == (1, 3)


async def test_an_older_version_comes_back(configurations: Callable[..., Configurations], applied: Applied) -> None:
    """CON-31: the version that was active before is the one to go back to."""
    found = configurations()
    for seed in (1, 2):
        await found.change("sources", "made", definition(seed=seed), ANNA, ANY_STATE, applied)
    previous = found.log("connectors", "made").previous
    assert previous is not None
    assert previous.number == 2
    log = await found.activate("connectors", "made", 2, ANNA, ANY_STATE, applied)
    assert (log.last_number, log.epoch) == (3, 4)
    assert log.previous is not None
    assert log.previous.number == 3
    with pytest.raises(NotFound, match="made has no version 9; there are: 1 to 3"):
        await found.activate("connectors", "made", 9, ANNA, ANY_STATE, applied)


async def test_lost_updates_are_refused(configurations: Callable[..., Configurations], applied: Applied) -> None:
    """CON-31: a change that is meant for another state changes nothing."""
    found = configurations()
    await found.change("sources", "made", definition(seed=1), ANNA, Condition(1), applied)
    with pytest.raises(ChangedMeanwhile, match="its state is 2, and the change is meant for 1"):
        await found.change("sources", "made", definition(seed=2), ANNA, Condition(1), applied)
    with pytest.raises(ChangedMeanwhile):
        await found.change("sources", "made", definition(seed=2), ANNA, Condition(0), applied)
    assert (active(found) or {})["settings"] == {"seed": 1}
    assert len(applied.specs) == 1


@pytest.mark.parametrize(
    ("table", "setting", "message"),
    [
        (definition(sead=1), "sources.made.settings.sead", "did you mean sources?.?made?.?settings?.?|seed"),
        ({"plugin": "randon", "stream": "s", "topic": "t"}, "sources.made.plugin", "random"),
        ({"plugin": "random"}, "sources.made.stream", "set stream and topic, or routing"),
        (definition() | {"transforms": 1}, "sources.made.transforms", "table of settings"),
    ],
)
async def test_a_mistake_is_refused_like_lint_does(
    configurations: Callable[..., Configurations], applied: Applied, table: dict[str, Any], setting: str, message: str
) -> None:
    """CON-31: nothing is stored or stopped."""
    found = configurations()
    with pytest.raises(SettingsError, match=message) as caught:
        await found.change("sources", "made", table, ANNA, ANY_STATE, applied)
    assert caught.value.problems[0].setting == setting
    assert (applied.specs, found.log("connectors", "made").last_number) == ([], 1)


@pytest.mark.parametrize("key", ["../up", "a/b", "", ".hidden", "x" * 101, "ü"])
def test_names_cannot_leave_the_directory(configurations: Callable[..., Configurations], key: str) -> None:
    with pytest.raises(SettingsError, match="is not a name: 1 to 100 letters"):
        configurations().check("sources", key, definition())


def test_a_name_belongs_to_one_kind(configurations: Callable[..., Configurations]) -> None:
    sink = {"plugin": "stdout", "stream": "s", "topic": "t"}
    with pytest.raises(WrongKind, match="made is in sources, and not in sinks"):
        configurations().check("sinks", "made", sink)


async def test_changes_are_refused_unless_they_are_enabled(
    configurations: Callable[..., Configurations], applied: Applied, tmp_path: Path
) -> None:
    """CON-31: the file alone decides, nothing is recorded, and its versions can be read."""
    found = configurations(top="")
    with pytest.raises(NotChangeable, match=r"set http\.configuration\.enabled"):
        await found.change("sources", "made", definition(), ANNA, ANY_STATE, applied)
    assert found.log("connectors", "made").last_number == 1
    assert not (tmp_path / "configuration").exists()
    with pytest.raises(SettingsError, match="needs address and token"):
        configurations(top="[http.configuration]\nenabled = true\n")


# ---- secrets


@pytest.mark.parametrize(
    ("text", "is_reference"),
    [
        ("${TOKEN}", True),
        ("${A}${B}", True),
        ("abc", False),
        ("abc${TOKEN}", False),
        ("postgresql://u:${P}@db/shop", True),
        ("postgresql://u@db/shop?sslmode=require", True),
        ("postgresql://u:x${P}@db/shop", False),
        ("postgresql://u:x@${HOST}/shop", False),
        ("postgresql://u@db/shop?password=x", False),
        ("postgresql://u@db/shop?user=u&password=${P}", True),
        ("host=db password=x", False),
        ("postgresql://[broken:x@db", False),
    ],
)
def test_secrets_and_references(text: str, is_reference: bool) -> None:
    assert is_by_reference(text) is is_reference


@given(st.text(min_size=1, alphabet=st.characters(codec="ascii", exclude_characters="${}\0")))
def test_a_password_in_an_address_is_no_reference(password: str) -> None:
    if not password.strip() or set(password) & set("/?#[]@"):
        return
    assert not is_by_reference(f"postgresql://u:{password}@db/shop")


async def test_secrets_are_not_shown_and_not_accepted(
    configurations: Callable[..., Configurations], applied: Applied, tmp_path: Path
) -> None:
    """CON-31: those of the file are redacted, those of changes are references."""
    text = (
        '[sources.hook]\nplugin = "webhook"\nstream = "s"\ntopic = "t"\n[sources.hook.settings]\n'
        'address = "127.0.0.1:0"\ntoken = "hunter2"\n[sources.hook.transforms.route]\ntopic_field = "a"\n'
        'mapping_url = "http://127.0.0.1:1"\nmapping_token = "hunter3"\n'
    )
    found = configurations(text, TOKEN="x")
    version = found.log("connectors", "hook").active
    assert version is not None
    shown = found.shown(version)
    assert "hunter" not in str(shown)
    assert shown is not None
    assert shown["settings"]["token"] == "[redacted]"
    with pytest.raises(SettingsError, match=r"write \$\{NAME\}") as caught:
        await found.change("sources", "hook", shown, ANNA, ANY_STATE, applied)
    assert [one.setting for one in caught.value.problems] == [
        "sources.hook.settings.token",
        "sources.hook.transforms.route.mapping_token",
    ]
    assert "hunter" not in str(caught.value)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "configuration").rglob("*.json")}
    assert set(modes.values()) == {0o600}


async def test_changes_refer_to_what_the_file_allows(
    configurations: Callable[..., Configurations], applied: Applied, tmp_path: Path
) -> None:
    """CON-31: a change cannot read other variables and files of the process."""
    text = (
        '[sources.hook]\nplugin = "webhook"\nstream = "s"\ntopic = "t"\n[sources.hook.settings]\ntoken = "${TOKEN}"\n'
    )
    secrets = tmp_path / "secrets" / "hook"
    secrets.mkdir(parents=True)
    (secrets / "token").write_text("x\n")
    (tmp_path / "other").write_text("x\n")
    top = TOP + 'variables = ["PG*"]\nsecrets_directory = "secrets"\n'
    found = configurations(text, top, TOKEN="t", PGPASSWORD="p", AWS_KEY="k")
    hook = {"plugin": "webhook", "stream": "s", "topic": "t"}

    def settings(**given: str) -> dict[str, Any]:
        return hook | {"settings": given}

    for allowed in (
        {"token": "${TOKEN}"},
        {"token": "${PGPASSWORD}"},
        {"token_file": str(secrets / "token")},
        {"token_file": "secrets/hook/token"},
    ):
        await found.change("sources", "hook", settings(**allowed), ANNA, ANY_STATE, applied)
    with pytest.raises(SettingsError, match="AWS_KEY may not be used over HTTP"):
        found.check("sources", "hook", settings(token="${AWS_KEY}"))
    outside = (str(tmp_path / "other"), "../other", str(secrets / ".." / "other"))
    # These are in the directory by their text alone, and the files that are read are elsewhere.
    for file in (*outside, "other", "~/x", "~no-such-user/x", "${TOKEN}", str(secrets / "${TOKEN}")):
        with pytest.raises(SettingsError, match="is no file of hook: its files are those in"):
            found.check("sources", "hook", settings(token_file=file))
    # The file allows less at the next start: the connector does not run with what it had.
    await found.change("sources", "hook", settings(token="${PGPASSWORD}"), ANNA, ANY_STATE, applied)
    (unusable,) = configurations(text, TOP, TOKEN="t", PGPASSWORD="p").opened
    assert isinstance(unusable, Unusable)
    assert "PGPASSWORD may not be used" in unusable.reason


def test_secrets_are_those_of_a_connector(configurations: Callable[..., Configurations]) -> None:
    """Regression: a new connector could refer to the variables of all others, and send them to any address."""
    text = (
        '[sources.hook]\nplugin = "webhook"\nstream = "s"\ntopic = "t"\n[sources.hook.settings]\ntoken = "${TOKEN}"\n'
    )
    found = configurations(text, TOP + 'variables = ["other:PG*"]\n', TOKEN="t", PGPASSWORD="p")

    def hook(variable: str) -> dict[str, Any]:
        return {"plugin": "webhook", "stream": "s", "topic": "t", "settings": {"token": f"${{{variable}}}"}}

    isolated = hook("TOKEN") | {"isolation": "process"}
    found.check("sources", "other", isolated | hook("PGPASSWORD") | {"environment": ["PGPASSWORD", "PGPASS*"]})
    for pattern in ("*", "P*", "AWS_*"):
        with pytest.raises(SettingsError, match="may not be used over HTTP by other"):
            found.check("sources", "other", isolated | hook("PGPASSWORD") | {"environment": [pattern]})
    found.check("sources", "hook", hook("TOKEN"))
    found.check("sources", "other", hook("PGPASSWORD"))
    for key, variable in (("other", "TOKEN"), ("new", "TOKEN"), ("hook", "PGPASSWORD"), ("new", "PGPASSWORD")):
        with pytest.raises(SettingsError, match=f"{variable} may not be used over HTTP by {key}"):
            found.check("sources", key, hook(variable))


def test_files_are_those_of_a_connector(configurations: Callable[..., Configurations], tmp_path: Path) -> None:
    """Regression: a new connector could name the files of all others, and send their contents to any address."""
    secrets = tmp_path / "secrets"
    for file in ("hook/token", "hook/inner/token", "hook.old/token", "flat", "unnamed"):
        (secrets / file).parent.mkdir(parents=True, exist_ok=True)
        (secrets / file).write_text("x\n")
    (tmp_path / "outside").write_text("x\n")
    tables = "".join(
        f'[sources.{key}]\nplugin = "webhook"\nstream = "s"\ntopic = "t"\n[sources.{key}.settings]\n'
        f'address = "127.0.0.1:0"\ntoken_file = "{file}"\n'
        for key, file in (("old", "secrets/flat"), ("own", "outside"))
    )
    found = configurations(tables, TOP + 'secrets_directory = "secrets"\n')

    def hook(file: str) -> dict[str, Any]:
        return {"plugin": "webhook", "stream": "s", "topic": "t", "settings": {"token_file": file}}

    # Files in the directory that the table of the pipeline file itself names stay usable.
    for key, file in (
        ("hook", "hook/token"),
        ("hook", "hook/inner/token"),
        ("hook.old", "hook.old/token"),
        ("old", "flat"),
    ):
        found.check("sources", key, hook(f"secrets/{file}"))
    refused = (
        ("new", "hook/token"),
        ("old", "hook/token"),
        ("hook", "hook.old/token"),
        ("hook", "hook/../hook.old/token"),
        ("new", "flat"),
        ("hook", "flat"),
        ("old", "unnamed"),
        ("flat", "flat"),
        ("hook", "hook"),
        ("own", "../outside"),
    )
    for key, file in refused:
        with pytest.raises(SettingsError, match=f"is no file of {key}"):
            found.check("sources", key, hook(f"secrets/{file}"))


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("http://shop.example/x", True),
        ("http://SHOP.example:8080", True),
        ("http://a.b.example/${PATH_OF_IT}", True),
        ("http://user:${SECRET}@shop.example/", True),
        ("${URL}", True),
        ("http://elsewhere.test/${SECRET}", False),
        ("http://example/", False),
        ("http://shop.example@elsewhere.test/", False),
        ("http://shop.example.elsewhere.test/", False),
        ("http://${SECRET}.a.example/", False),
        ("http://${SECRET}/", False),
        ("${URL}@elsewhere.test/", False),
        ("http://elsewhere.test\\\\@shop.example/", False),
        ("postgresql://shop.example,elsewhere.test/x", False),
        ("host=elsewhere.test", False),
        ("http://[shop.example/", False),
    ],
)
def test_urls_lead_to_the_destinations_of_the_file(
    configurations: Callable[..., Configurations], url: str, is_allowed: bool
) -> None:
    top = TOP + 'variables = ["*"]\ndestinations = ["shop.example", "*.b.example", "*.a.example"]\n'
    found = configurations(top=top, URL="http://x/", SECRET="s", PATH_OF_IT="p")
    sink = {"plugin": "http", "stream": "s", "topic": "t", "settings": {"url": url}}
    if is_allowed:
        found.check("sinks", "out", sink)
        return
    with pytest.raises(SettingsError, match="the host is not one of"):
        found.check("sinks", "out", sink)


# ---- files


async def test_a_version_that_is_not_valid_any_more_holds_up_no_other(
    configurations: Callable[..., Configurations], applied: Applied
) -> None:
    """CON-31: its connector ends with the reason, and can be corrected."""
    top = TOP + 'variables = ["SEED"]\n'
    found = configurations(top=top, SEED="7")
    hook = {"plugin": "webhook", "stream": "s", "topic": "t", "settings": {"token": "${SEED}"}}
    await found.change("sources", "hook", hook, ANNA, ANY_STATE, applied)
    again = configurations(top=top)
    assert [type(one).__name__ for one in again.opened] == ["SourceSpec", "Unusable"]
    assert "the environment variable SEED is not set" in again.opened[1].reason
    await again.change("sources", "hook", definition(), ANNA, ANY_STATE, applied)
    assert [type(one).__name__ for one in configurations(top=top).opened] == ["SourceSpec", "SourceSpec"]


def test_a_damaged_file_is_an_error_that_names_it(
    configurations: Callable[..., Configurations], tmp_path: Path
) -> None:
    configurations()
    file = tmp_path / "configuration" / "connectors" / "made.json"
    for damaged, message in (('{"format": 1, "log"', "cannot be read"), ('{"format": 2, "log": {}}', "format 2")):
        file.write_text(damaged)
        with pytest.raises(ConnectorError, match=message) as caught:
            configurations()
        assert str(file) in str(caught.value)


async def test_a_version_that_cannot_be_stored_changes_nothing(
    configurations: Callable[..., Configurations], applied: Applied, tmp_path: Path
) -> None:
    """CON-31: storing comes first, and what was stored is the previous log or the new one."""
    found = configurations()
    # The name of the unfinished file is taken by a directory.
    (tmp_path / "configuration" / "connectors" / "made.json.unfinished").mkdir()
    with pytest.raises(NotStored, match=r"nothing has changed.* directory"):
        await found.change("sources", "made", definition(seed=1), ANNA, ANY_STATE, applied)
    assert (applied.specs, found.log("connectors", "made").last_number) == ([], 1)


def test_old_versions_are_dropped_but_not_the_active_one() -> None:
    log = VersionLog("a")
    at = datetime.now(UTC)
    log = log.changed(at, ANNA, "file", "sources", {"n": 0})
    for number in range(VERSIONS_MAX + 50):
        log = log.changed(at, ANNA, "http", "sources", {"n": number})
    assert len(log.versions) == VERSIONS_MAX + 1
    assert log.newest_of_file is not None
    assert log.newest_of_file.number == 1
    assert log.activated(at, ANNA, 60).find(60) == log.find(60)


# ---- mappings


async def test_mappings_have_versions_too(configurations: Callable[..., Configurations], applied: Applied) -> None:
    """CON-32: a mapping is replaced as a whole, with a new epoch."""
    text = RANDOM + '[mappings.events]\npaid = { stream = "s", topic = "paid" }\n'
    found = configurations(text)
    assert found.mapping_names == ["events"]
    changed = {"paid": {"stream": "s", "topic": "other"}}
    log = await found.change("mappings", "events", changed, ANNA, ANY_STATE, applied)
    mapping, seen = configurations(text).mapping("events")
    assert (mapping["paid"].topic, seen.epoch, log.epoch) == ("other", 2, 2)
    with pytest.raises(SettingsError, match="is empty: it would route no record"):
        await found.change("mappings", "events", {}, ANNA, ANY_STATE, applied)
    with pytest.raises(SettingsError, match=r"mappings\.events\.paid"):
        await found.change("mappings", "events", {"paid": {"stream": "s"}}, ANNA, ANY_STATE, applied)
    await found.delete("mappings", "events", ANNA, ANY_STATE, applied)
    with pytest.raises(NotFound, match="there is no mapping 'events'"):
        found.mapping("events")
    assert applied.specs == []


# ---- plugins that use the machine


@pytest.mark.parametrize(
    ("kind", "table", "setting"),
    [
        ("sources", definition() | {"transforms": {"python": {"function": "os:system"}}}, "transforms.python"),
        ("sources", definition() | {"transforms": {"x": {"plugin": "python", "function": "os:abort"}}}, "transforms.x"),
        ("sources", {"plugin": "files", "stream": "s", "topic": "t", "settings": {"paths": ["/etc/*"]}}, "plugin"),
        ("sinks", {"plugin": "parquet", "stream": "s", "topic": "t", "settings": {"path": "/etc"}}, "plugin"),
        ("sinks", {"plugin": "delta", "stream": "s", "topic": "t", "settings": {"path": "/etc/x"}}, "plugin"),
        ("sinks", {"plugin": "sqlite", "stream": "s", "topic": "t", "settings": {"path": "/etc/x"}}, "plugin"),
        (
            "sources",
            definition() | {"codec": "protobuf", "codec_settings": {"message": "m", "module": "this"}},
            "codec",
        ),
        ("sources", definition() | {"codec": "avro", "codec_settings": {}}, "codec"),
    ],
)
async def test_a_change_runs_no_code_and_uses_no_files(
    configurations: Callable[..., Configurations], applied: Applied, kind: Any, table: dict[str, Any], setting: str
) -> None:
    """CON-31: plugins that do are refused before their settings are used, unless the pipeline file allows them."""
    with pytest.raises(SettingsError, match=r"add it to http\.configuration\.plugins") as caught:
        await configurations().change(kind, "new", table, ANNA, ANY_STATE, applied)
    assert [one.setting for one in caught.value.problems] == [f"{kind}.new.{setting}"]
    assert applied.specs == []


async def test_a_plugin_that_the_file_allows(configurations: Callable[..., Configurations], applied: Applied) -> None:
    """CON-31: what is not allowed any more does not run at the next start."""
    table = definition() | {"transforms": {"python": {"function": "copy:copy"}}}
    allowing = TOP + 'plugins = ["python"]\n'
    await configurations(top=allowing).change("sources", "new", table, ANNA, ANY_STATE, applied)
    assert [type(one).__name__ for one in configurations(top=allowing).opened] == ["SourceSpec", "SourceSpec"]
    (_, unusable) = configurations().opened
    assert isinstance(unusable, Unusable)
    assert "python runs code" in unusable.reason
