"""Make the first inputs of the fuzz targets: from the recorded exchanges, and what two replicas say to each other.

    python core/fuzz/seeds.py

Writes one file per distinct input into ``core/fuzz/corpus/<target>``, which is where cargo-fuzz looks. Running it again
changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path

FUZZ_FOLDER = Path(__file__).resolve().parent
RECORDING = FUZZ_FOLDER.parent / "crates" / "wire" / "tests" / "data" / "classic.jsonl"

CREATE_USER, UPDATE_PERMISSIONS, POLL_MESSAGES, SEND_MESSAGES = 33, 36, 100, 101
WAIT_MESSAGES, WATCH_PARTITIONS, SET_TRACE_CONTEXT = 10001, 10002, 10003
INDEX_BYTES, MESSAGE_HEADER_BYTES, POLLED_HEADER_BYTES = 16, 64, 16


def main() -> None:
    """Write the files."""
    for target, content in (*recorded_inputs(), *handshake_inputs(), *websocket_inputs()):
        folder = FUZZ_FOLDER / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)


def recorded_inputs() -> Iterator[tuple[str, bytes]]:
    """Yield the inputs that the recording gives, each with its target."""
    for line in RECORDING.read_text(encoding="utf-8").splitlines():
        exchange = json.loads(line)
        request, response = bytes.fromhex(exchange["request"]), bytes.fromhex(exchange["response"])
        yield from inputs(exchange["code"], request, exchange["status"], response)


def websocket_inputs() -> Iterator[tuple[str, bytes]]:
    """Yield frames of every kind, masked and not, alone and one after the other."""
    key = b"\x01\x02\x03\x04"
    payload = "größer".encode()
    every = {False: b"", True: b""}
    for mask in every:
        for first in (0x01, 0x80, 0x02, 0x00, 0x80, 0x81, 0x82, 0x89, 0x8A, 0x88):
            body = struct.pack(">H", 1000) + payload if first == 0x88 else payload
            header = struct.pack("BB", first, len(body) | mask << 7)
            if mask:
                body = bytes(byte ^ key[at % 4] for at, byte in enumerate(body))
                header += key
            yield "websocket", b"\x03" + header + body
            every[mask] += header + body
    for frames in every.values():
        yield "websocket", b"\x05" + frames
    upgrade = "GET / HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"
    yield "websocket", b"\x09" + "\r\n".join((*upgrade, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", "")).encode()


def inputs(code: int, request: bytes, status: int, response: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the inputs that one exchange gives, each with its target."""
    yield "frame", struct.pack("<II", len(request) + 4, code) + request
    yield "command", struct.pack("<I", code) + request
    yield "status", struct.pack("<II", status, len(response))
    if status == 0:
        yield "response", struct.pack("<I", code) + response
    if code == SEND_MESSAGES:
        yield "send_metadata", struct.pack("<H", 32) + request
        metadata_end = 4 + struct.unpack_from("<I", request)[0]
        count = struct.unpack_from("<I", request, metadata_end - 4)[0]
        yield "batch", struct.pack("<B", count) + request[metadata_end:]
        yield from message_inputs(request[metadata_end + count * INDEX_BYTES :])
    if code == POLL_MESSAGES:
        yield from extension_inputs(request, status, response)
    if code == POLL_MESSAGES and status == 0:
        yield from message_inputs(response[POLLED_HEADER_BYTES:])
    if code in (CREATE_USER, UPDATE_PERMISSIONS):
        # The record ends the request, behind its flag and length. Its shortest form is eleven bytes.
        for start in range(len(request) - 15):
            if request[start] == 1 and struct.unpack_from("<I", request, start + 1)[0] == len(request) - start - 5:
                yield "permissions", request[start + 5 :]


def extension_inputs(request: bytes, status: int, response: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what the extensions make of a recorded poll: no recording has them."""
    yield "command", struct.pack("<I", WAIT_MESSAGES) + request + struct.pack("<IQ", 4096, 1_000_000)
    # Consumer and partition go; the identifiers of stream and topic stay.
    stream = 3 + request[2]
    topic = stream + 2 + request[stream + 1]
    path = request[stream : topic + 2 + request[topic + 1]]
    watched = struct.pack("<BI", 1, 2) + 2 * (path + struct.pack("<3I", 2, 0, 1))
    yield "command", struct.pack("<I", WATCH_PARTITIONS) + watched
    yield "response", struct.pack("<I", WATCH_PARTITIONS) + 2 * struct.pack("<4I4Q", 0, 1, 2, 3, 4, 5, 6, 7)
    yield "command", struct.pack("<I", SET_TRACE_CONTEXT) + bytes(range(25))
    if status == 0:
        yield "response", struct.pack("<I", WAIT_MESSAGES) + response


def message_inputs(messages: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the messages as a whole, and the user headers of each."""
    yield "messages", messages
    position = 0
    while position < len(messages):
        headers_length, payload_length = struct.unpack_from("<II", messages, position + 48)
        headers_start = position + MESSAGE_HEADER_BYTES + payload_length
        position = headers_start + headers_length
        if headers_length:
            yield "user_headers", messages[headers_start:position]


def handshake_inputs() -> Iterator[tuple[str, bytes]]:
    """Yield what strangers and peers say, with and without the framing of a message."""
    release, standing, nonce, name = 0x0104 << 8, struct.pack("<BBI", 1, 0, 7), bytes(32), b"test"
    for caller, called, replicas in ((1, 0, 3), (2, 0, 3), (1, 2, 3), (0, 0, 3), (1, 0, 5)):
        members = bytes([caller, called, replicas])
        hello = b"HRVR" + struct.pack("<HI", 1, release) + standing + (7).to_bytes(16, "little") + members + nonce
        hello += bytes([len(name)]) + name
        yield "handshake", bytes([2, 0]) + hello
        yield "handshake", bytes([0, 16]) + struct.pack("<HB", len(hello), 1) + hello
    challenge = struct.pack("<I", release) + standing + nonce
    yield "handshake", bytes([3, len(challenge)]) + challenge + standing
    yield "handshake", bytes([1, 16]) + struct.pack("<HB", len(challenge) + 32, 2) + challenge + bytes(32)
    yield "handshake", bytes([1, 255]) + struct.pack("<HB", 2, 5) + b"no"


if __name__ == "__main__":
    main()
