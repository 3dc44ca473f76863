"""Cases: plugins with what their checks need around them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from headrace_connectors.conformance.rules import NotChecked
from headrace_connectors.contract import Codec, Record, Sink, Source, Transform
from headrace_connectors.plugins.discovery import Plugins

Plugin = TypeVar("Plugin", Source, Sink, Transform, Codec)


class Case(ABC, Generic[Plugin]):
    """A plugin with its surroundings. A subclass describes one plugin; each check makes an instance."""

    kind: ClassVar[str]
    """``sources``, ``sinks``, ``transforms`` or ``codecs``."""
    name: str
    """Name of the plugin's entry point."""
    seconds: float = 20.0
    """Time for an answer of the plugin; a check that waits for longer fails."""
    plugins: Plugins | None = None
    """Plugins among which it is found; None: the installed ones."""

    def loaded(self) -> type[Plugin]:
        """Return the class of the plugin.

        Raises:
            ConnectorError: There is none of this name, or it is written for another version of the contract.
        """
        found: type[Plugin] = (self.plugins or Plugins()).load(self.kind, self.name)
        return found

    def settings(self) -> Mapping[str, Any]:
        """Return settings as a pipeline file has them; called after `prepare`."""
        return {}

    def create(self) -> Plugin:
        """Create the plugin with the settings of the case."""
        kind = self.loaded()
        settings = self.settings()
        fields = kind.settings_type.model_fields.items()
        missing = [name for name, field in fields if field.is_required() and name not in settings]
        if missing:
            raise NotChecked(f"the case gives no settings: {', '.join(missing)}")
        made: Plugin = kind(kind.settings_type.model_validate(settings))  # type: ignore[call-arg]
        return made

    async def prepare(self) -> None:
        """Set the surroundings up."""

    async def clean(self) -> None:
        """Remove the surroundings; called after a `prepare` that failed, too."""


class SourceCase(Case[Source]):
    """A source, and the system that it reads."""

    kind = "sources"

    async def feed(self, count: int) -> None:
        """Make further records available to the source.

        A case of a source with callers, such as a webhook, sends them in the background, and again if they are refused.
        """
        raise NotChecked(f"the case does not feed its source with {count} records")

    async def kept(self) -> int | None:
        """Return how many records of `feed` are kept for the source until a commit; None: commits change nothing."""
        return None


class SinkCase(Case[Sink]):
    """A sink, and the system that it writes to."""

    kind = "sinks"

    def payload(self, number: int) -> Any:
        """Return a payload that can be written, with a number that `written` recognises."""
        return {"id": number}

    def invalid_payload(self) -> Any:
        """Return a payload that the sink refuses."""
        raise NotChecked("the case has no payload that its sink refuses")

    async def written(self) -> Sequence[int]:
        """Return the numbers of all payloads that the other system has, with repetitions."""
        raise NotChecked("the case does not read what its sink writes")


class TransformCase(Case[Transform]):
    """A transform, and records for it."""

    kind = "transforms"

    def records(self) -> Sequence[Record]:
        """Return records of every kind that the transform distinguishes."""
        nested = {"type": "paid", "order": {"id": 7, "items": [1, 2]}, "note": None}
        return [
            Record(nested, id=1, headers={"a": 1}),
            Record({}),
            Record([1, {"a": 2}]),
            Record("text"),
            Record(b"{}"),
        ]


class CodecCase(Case[Codec]):
    """A codec, and payloads for it."""

    kind = "codecs"
    bad_bytes: Sequence[bytes] = ()
    """Bytes that are not of the codec's form."""

    def payloads(self) -> Any:
        """Return a strategy of Hypothesis for payloads that the codec can encode."""
        raise NotChecked("the case has no payloads for its codec")

    def expected(self, payload: Any) -> Any:
        """Return what the payload is after encoding and decoding it."""
        return payload


_CASES: Mapping[str, type[Case[Any]]] = {case.kind: case for case in (SourceCase, SinkCase, TransformCase, CodecCase)}


def bare_case(kind: str, name: str, plugins: Plugins | None = None) -> Case[Any]:
    """Return a case that knows the name of a plugin alone: it is enough for rules about settings."""
    made = _CASES[kind]()
    made.name, made.plugins = name, plugins
    return made
