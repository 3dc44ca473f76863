"""Frames as a client of a WebSocket sends them."""

from __future__ import annotations

_MASK = b"\x01\x82\x33\xc4"


def frame(
    opcode: int, payload: bytes, *, last: bool = True, compressed: bool = False, mask: bytes | None = _MASK
) -> bytes:
    size = len(payload)
    length = bytes((size,)) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
    first = opcode | (0x80 if last else 0) | (0x40 if compressed else 0)
    head = bytes((first, length[0] | (0x80 if mask else 0))) + length[1:]
    if mask is None:
        return head + payload
    return head + mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
