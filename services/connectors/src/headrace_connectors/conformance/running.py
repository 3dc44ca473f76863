"""Checks of rules: one rule, one case, one outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace_connectors.conformance import (
    codec_rules,
    pipelined_rules,
    plugin_rules,
    sink_rules,
    source_rules,
    transform_rules,
)
from headrace_connectors.conformance.cases import Case
from headrace_connectors.conformance.rules import NotChecked, Outcome, Rule, Violation

_RULES: Final[Mapping[str, tuple[Rule[Any], ...]]] = {
    "sources": (*plugin_rules.RULES, *source_rules.RULES, *pipelined_rules.RULES),
    "sinks": (*plugin_rules.RULES, *sink_rules.RULES),
    "transforms": (*plugin_rules.RULES, *transform_rules.RULES),
    "codecs": (*plugin_rules.RULES, *codec_rules.RULES),
}


def rules_of(kind: str) -> tuple[Rule[Any], ...]:
    """Return the rules for a kind of plugins: ``sources``, ``sinks``, ``transforms`` or ``codecs``."""
    return _RULES[kind]


async def check(rule: Rule[Any], make_case: Callable[[], Case[Any]]) -> Outcome:
    """Check one rule.

    Args:
        rule: The rule.
        make_case: Makes the case; a class without parameters does.
    """
    case = make_case()
    try:
        await case.prepare()
        await rule.check(case)
    except Violation as error:
        return Outcome(rule, "failed", str(error))
    except NotChecked as error:
        return Outcome(rule, "not_checked", str(error))
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        return Outcome(rule, "failed", f"the plugin failed: {type(error).__name__}: {error}")
    finally:
        await case.clean()
    return Outcome(rule, "passed")


def verify(rule: Rule[Any], make_case: Callable[[], Case[Any]]) -> Outcome:
    """Check one rule in an event loop of its own, for tests.

    Raises:
        Violation: The plugin breaks it.
    """
    outcome = asyncio.run(check(rule, make_case))
    if outcome.result == "failed":
        raise Violation(f"{rule}: {outcome.reason}. The rule: {rule.text}")
    return outcome
