"""Conversion of Arrow arrays for the native codec."""

from __future__ import annotations

import pyarrow as pa

from headrace_core import InputArray


def given(array: pa.Array) -> InputArray:
    """Pass the buffers of an array to the codec without copying them."""
    kind, buffers, offset = array.type, array.buffers(), array.offset
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        children = [given(array.values)]
        if pa.types.is_list(kind):
            return InputArray("list", buffers[:2], offset=offset, children=children)
        return InputArray("large_list", buffers[:2], offset=offset, children=children)
    if pa.types.is_struct(kind):
        fields = [given(array.field(index)) for index in range(kind.num_fields)]
        return InputArray("struct", buffers[:1], offset=offset, children=fields)
    if pa.types.is_timestamp(kind):
        times = array.cast(pa.timestamp("us", kind.tz))
        return InputArray("int64", times.buffers(), offset=times.offset)
    if pa.types.is_int64(kind):
        return InputArray("int64", buffers, offset=offset)
    if pa.types.is_fixed_size_binary(kind):
        return InputArray("fixed_binary", buffers, offset=offset, width=kind.byte_width)
    if pa.types.is_int32(kind):
        return InputArray("int32", buffers, offset=offset)
    large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    return InputArray("large_binary" if large else "binary", buffers, offset=offset)
