"""Rules for plugins of every kind: version and settings. They need no surroundings."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from headrace_connectors.conformance.cases import Case
from headrace_connectors.conformance.rules import NotChecked, Violation, rule
from headrace_connectors.contract import ConnectorError, Settings
from headrace_settings import Secret, settings_of

_SECRET_NAMES: Final = re.compile(r"(^|_)(password|passphrase|secret|token|api_key|credentials?)($|_(?!file))")
_SAMPLE: Final = "conformance-secret-7d1f"


@rule
async def version_is_declared(case: Case[Any]) -> None:
    """The entry point of the plugin is in the group of this version of the contract, and names a class of its kind."""
    try:
        case.loaded()
    except ConnectorError as error:
        raise Violation(str(error)) from error


@rule
async def settings_are_described(case: Case[Any]) -> None:
    """The settings are a `Settings` model, and each of them has a docstring."""
    model = case.loaded().settings_type
    if not (isinstance(model, type) and issubclass(model, Settings)):
        raise Violation(f"settings_type is {model!r}, no subclass of headrace_connectors.contract.Settings")
    missing = [setting.dotted for setting in settings_of(model) if not setting.description]
    if missing:
        raise Violation(f"{model.__name__} has settings without a docstring below them: {', '.join(missing)}")


@rule
async def defaults_are_valid(case: Case[Any]) -> None:
    """A setting that is not given has a valid value."""
    model = case.loaded().settings_type
    for setting in settings_of(model):
        if not setting.field.is_required():
            default = setting.field.get_default(call_default_factory=True)
            try:
                TypeAdapter(setting.field.rebuild_annotation()).validate_python(default)
            except ValidationError as error:
                raise Violation(f"{setting.dotted} has the default {default!r}, which is invalid: {error}") from error


@rule
async def unknown_settings_are_refused(case: Case[Any]) -> None:
    """A setting that does not exist, such as a misspelt one, is an error."""
    model = case.loaded().settings_type
    try:
        model.model_validate({**_given(case), "no_such_setting": 1})
    except ValidationError as error:
        if not any(one["loc"] == ("no_such_setting",) for one in error.errors()):
            raise Violation(f"{model.__name__} takes the unknown setting no_such_setting") from error
    else:
        raise Violation(f"{model.__name__} takes the unknown setting no_such_setting")


@rule
async def secrets_are_hidden(case: Case[Any]) -> None:
    """A setting with a secret is of the type `Secret`, and neither the settings nor the plugin print its text."""
    model = case.loaded().settings_type
    for setting in settings_of(model):
        if _SECRET_NAMES.search(setting.path[-1]) and not setting.is_secret:
            raise Violation(f"{setting.dotted} is a secret by its name, and not of the type Secret")
    secrets = [setting.path[0] for setting in settings_of(model) if setting.is_secret and len(setting.path) == 1]
    if not secrets:
        return
    given = _given(case)
    try:
        settings = model.model_validate({**given, **{name: given.get(name, _SAMPLE) for name in secrets}})
        made: Any = case.loaded()(settings)
    except ValidationError as error:
        raise NotChecked(f"the case gives no valid settings: {error}") from error
    texts = {getattr(settings, name).reveal() for name in secrets if isinstance(getattr(settings, name), Secret)}
    for shown in (repr(settings), str(settings), repr(made), str(made)):
        if any(text in shown for text in texts if text):
            raise Violation(f"a secret is printed: {shown}")


RULES: Final = (
    version_is_declared,
    settings_are_described,
    defaults_are_valid,
    unknown_settings_are_refused,
    secrets_are_hidden,
)


def _given(case: Case[Any]) -> dict[str, Any]:
    return dict(case.settings())
