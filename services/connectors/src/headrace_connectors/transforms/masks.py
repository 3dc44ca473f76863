"""The transform `mask_fields`: values that readers must not see."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field, model_validator

from headrace_connectors.contract import InvalidRecord, Record, Settings, Transform
from headrace_connectors.json_errors import NO_FORM_IN_JSON
from headrace_connectors.json_values import JsonEncoder
from headrace_connectors.routing.paths import MISSING, ReadPath, parse_path
from headrace_connectors.transforms.payloads import object_of, placed, with_payload
from headrace_settings import Between, Secret

_KEY_CHARACTERS_MIN: Final = 16
_ENCODER: Final = JsonEncoder("deterministic")


class MaskFieldsSettings(Settings):
    """`transforms.mask_fields`: values to hide."""

    redact: tuple[ReadPath, ...] = ()
    """Paths of fields whose value is replaced by `text`."""
    hash: tuple[ReadPath, ...] = ()
    """Paths of fields whose value is replaced by its HMAC-SHA256 in hexadecimal: the same for equal values, so that
    they can still be counted and joined.
    """
    keep_last: Mapping[ReadPath, Annotated[int, Between(1, 64)]] = Field(default_factory=dict)
    """Number of characters that stay at the end, by path; each one before is replaced by `*`. A value that has no more
    characters than these is replaced as a whole.
    """
    key: Secret | None = None
    """Key of the hashes, of at least 16 characters: without it, short values could be found by trying."""
    text: str = "***"
    """Replacement of redacted values."""

    @model_validator(mode="after")
    def _hides_each_field_once(self) -> Self:
        paths = [*self.redact, *self.hash, *self.keep_last]
        if not paths:
            raise ValueError("hides nothing: set redact, hash or keep_last")
        repeated = next((path for path in paths if paths.count(path) > 1), None)
        if repeated is not None:
            raise ValueError(f"{repeated} is masked twice: keep it in one of redact, hash and keep_last")
        if self.hash and self.key is None:
            raise ValueError("hash needs key (or key_file)")
        if self.key is not None and not self.hash:
            raise ValueError("key has no effect without hash: remove it, or name fields in hash")
        if self.key is not None and len(self.key.reveal()) < _KEY_CHARACTERS_MIN:
            raise ValueError(f"key has less than {_KEY_CHARACTERS_MIN} characters: use a random one")
        return self


class MaskFields(Transform):
    """Replaces values by a text, by a hash with a key, or all but their last characters."""

    settings_type: ClassVar[type[Settings]] = MaskFieldsSettings

    def __init__(self, settings: MaskFieldsSettings) -> None:
        """Parse the paths."""
        key = b"" if settings.key is None else settings.key.reveal().encode()
        masks: list[tuple[str, Callable[[Any], Any]]] = [
            *((path, lambda _value: settings.text) for path in settings.redact),
            *((path, partial(_hashed, key)) for path in settings.hash),
            *((path, partial(_shortened, count)) for path, count in settings.keep_last.items()),
        ]
        self._masks = [(parse_path(path), mask) for path, mask in masks]

    def apply(self, record: Record) -> Record:
        """Return the record with masked values; null stays null.

        Raises:
            InvalidRecord: The payload is no object, or a path leads into a list: the values in it would stay visible.
        """
        payload: Any = object_of(record)
        for path, mask in self._masks:
            value = _value_at(payload, path)
            if value is not MISSING and value is not None:
                payload = placed(payload, path, mask(value))
        return with_payload(record, payload)


def _value_at(payload: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if isinstance(payload, list | tuple):
            raise InvalidRecord(f"{'.'.join(path)} cannot be masked: there is a list on the path")
        if not isinstance(payload, Mapping) or name not in payload:
            return MISSING
        payload = payload[name]
    return payload


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return _ENCODER.encode(value).decode()
    except NO_FORM_IN_JSON as error:
        raise InvalidRecord(f"a value that is to be masked has no form in JSON: {error}") from error


def _hashed(key: bytes, value: Any) -> str:
    # A lone surrogate, which JSON can have, is hashed like any other character.
    return hmac.new(key, _text(value).encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def _shortened(count: int, value: Any) -> str:
    text = _text(value)
    hidden = max(len(text) - count, 0) or len(text)
    return "*" * hidden + text[hidden:]
