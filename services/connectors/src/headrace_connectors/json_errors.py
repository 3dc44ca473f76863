"""Exceptions of msgspec for what has no form in JSON."""

from __future__ import annotations

from typing import Final

import msgspec

# msgspec has errors of its own for most mistakes. Bytes that are not UTF-8, and values that are nested too deeply for
# the stack, cause those of Python.
NOT_JSON: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""Raised for input that cannot be decoded, whatever its bytes are."""
NO_FORM_IN_JSON: Final = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
"""Raised for a value that cannot be encoded."""
