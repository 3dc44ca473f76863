"""Rules of the contract and the plugins that keep them, for `headrace connect test-plugin`."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.cli.errors import CommandError
from headrace_connectors.commands.documents import ConformanceDocument
from headrace_connectors.conformance import Case, Outcome, bare_case, check, rules_of
from headrace_connectors.contract import GROUPS
from headrace_connectors.plugins.discovery import Plugins


def outcomes(name: str, kind: str | None, case: str | None) -> list[ConformanceDocument]:
    """Check the rules for a plugin.

    Args:
        name: Name of the plugin.
        kind: ``source``, ``sink``, ``transform`` or ``codec``; None: the kinds that have this name.
        case: The case as ``module:Class``; None: rules that need no case are checked.

    Raises:
        CommandError: There is no such plugin, or the case is not for it.
    """
    if case is not None:
        made = _case(case)
        found_name = getattr(made, "name", None)
        if found_name != name:
            text = f"is a case for {found_name}, not for {name}" if found_name else f'has no name: set name = "{name}"'
            raise CommandError(f"{case} {text}")
        return _checked(made.kind, name, _case_class(case))
    kinds = [f"{kind}s"] if kind is not None else _kinds_of(name)
    return [
        one
        for found in kinds
        for one in _checked(found, name, lambda found=found: bare_case(found, name))  # type: ignore[misc]
    ]


def _kinds_of(name: str) -> list[str]:
    installed = Plugins().installed()
    found = [kind for kind in GROUPS if any((one.kind, one.name) == (kind, name) for one in installed)]
    if not found:
        raise CommandError(f"{name!r} is not a plugin (`headrace connect plugins` lists them)")
    return found


def _case_class(text: str) -> type[Case[Any]]:
    module, _, name = text.partition(":")
    # A case is a test, and those are seldom installed.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise CommandError(
            f"{text} is not found: {error}; write module:Class, such as tests.plugins:CounterCase"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Case)):
        raise CommandError(f"{text} is no subclass of headrace_connectors.conformance.Case")
    return found


def _case(text: str) -> Case[Any]:
    kind = _case_class(text)
    try:
        return kind()
    except TypeError as error:
        raise CommandError(f"{text} cannot be made without arguments: {error}") from error


def _checked(kind: str, name: str, make_case: Callable[[], Case[Any]]) -> list[ConformanceDocument]:
    async def run() -> list[Outcome]:
        return [await check(rule, make_case) for rule in rules_of(kind)]

    return [
        ConformanceDocument(
            kind=kind.removesuffix("s"),  # type: ignore[typeddict-item]
            name=name,
            rule=outcome.rule.name,
            text=outcome.rule.text,
            result=outcome.result,
            reason=outcome.reason,
        )
        for outcome in asyncio.run(run())
    ]
