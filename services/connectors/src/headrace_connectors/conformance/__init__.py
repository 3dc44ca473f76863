"""Rules of the contract, as checks that any plugin can run: with pytest, or by ``headrace connect test-plugin``.

A *case* describes a plugin with its surroundings: settings, and how records get into the system that it reads, or out
of the one that it writes. Each rule runs with a case of its own.

    @pytest.mark.parametrize("rule", rules_of("sources"), ids=str)
    def test_counter(rule):
        verify(rule, CounterCase)
"""

from headrace_connectors.conformance.cases import Case, CodecCase, SinkCase, SourceCase, TransformCase, bare_case
from headrace_connectors.conformance.rules import NotChecked, Outcome, Rule, Violation
from headrace_connectors.conformance.running import check, rules_of, verify

__all__ = [
    "Case",
    "CodecCase",
    "NotChecked",
    "Outcome",
    "Rule",
    "SinkCase",
    "SourceCase",
    "TransformCase",
    "Violation",
    "bare_case",
    "check",
    "rules_of",
    "verify",
]
