"""Patterns of destinations in lists of allowed and denied ones."""

from __future__ import annotations

import re
from typing import Final

from pydantic import model_validator

from headrace_settings import Section

ANY: Final = "*"
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def segment(text: str) -> str:
    """Return a segment of a pattern.

    Raises:
        ValueError: It is neither a name nor ``*``.
    """
    if text != ANY and not _NAME.fullmatch(text):
        raise ValueError(f'{text!r} is neither a name (letters, digits, ".", "_", "-") nor "*" alone')
    return text


class Pattern(Section):
    """Destinations by stream and topic, each a name or ``*`` for any. There are no partial wildcards."""

    stream: str
    """Name of the stream, or `*`."""
    topic: str
    """Name of the topic, or `*`."""

    @model_validator(mode="after")
    def _is_narrow(self) -> Pattern:
        segment(self.stream)
        segment(self.topic)
        if self.stream == self.topic == ANY:
            raise ValueError(
                '{ stream = "*", topic = "*" } matches everything: for an allowlist use mode = "open" instead, '
                "and a denylist of everything refuses every record"
            )
        return self

    @property
    def names_one(self) -> bool:
        """True if it matches one destination only."""
        return ANY not in (self.stream, self.topic)

    def matches(self, stream: str, topic: str) -> bool:
        """Return whether it matches this destination."""
        return self.stream in (ANY, stream) and self.topic in (ANY, topic)
