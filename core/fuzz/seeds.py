"""Create the seed inputs of the fuzz targets: from the recorded exchanges, and from a conversation of two replicas.

    python core/fuzz/seeds.py

Writes one file per distinct input into ``core/fuzz/corpus/<target>``, the directory of cargo-fuzz. Running it again
changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import tomllib
from collections.abc import Iterator
from pathlib import Path

FUZZ_DIRECTORY = Path(__file__).resolve().parent
RECORDING = FUZZ_DIRECTORY.parent / "crates" / "wire" / "tests" / "data" / "classic.jsonl"

PROTO = FUZZ_DIRECTORY.parents[1] / "proto"
COMMANDS = tomllib.loads((PROTO / "commands.toml").read_text(encoding="utf-8"))["command"]
LAYOUTS = tomllib.loads((PROTO / "layouts.toml").read_text(encoding="utf-8"))
CODES = {row["name"]: row["code"] for row in COMMANDS}
INDEX_BYTES, MESSAGE_HEADER_BYTES, POLLED_HEADER_BYTES = 16, 64, 16


def main() -> None:
    """Write the files."""
    for target, content in (
        *recorded_inputs(),
        *layout_inputs(),
        *handshake_inputs(),
        *websocket_inputs(),
        *link_inputs(),
        *ticket_inputs(),
        *row_inputs(),
    ):
        directory = FUZZ_DIRECTORY / "corpus" / target
        directory.mkdir(parents=True, exist_ok=True)
        (directory / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)


def recorded_inputs() -> Iterator[tuple[str, bytes]]:
    """Yield the inputs from the recording, each with its target."""
    for line in RECORDING.read_text(encoding="utf-8").splitlines():
        exchange = json.loads(line)
        request, response = bytes.fromhex(exchange["request"]), bytes.fromhex(exchange["response"])
        yield from inputs(exchange["code"], request, exchange["status"], response)


def layout_inputs() -> Iterator[tuple[str, bytes]]:
    """Yield a request and a response of every command whose payloads are in the table of layouts."""
    for row in COMMANDS:
        code = struct.pack("<I", row["code"])
        payload, response = (re.search(r"(\w+)(<'a>)?[>)]*$", row.get(key, "")) for key in ("payload", "response"))
        for target, kind in (("command", payload), ("response", response)):
            if kind and kind[1] in LAYOUTS and kind[1] != "StageMessages":
                yield target, code + sample(kind[1])


def sample(kind: str) -> bytes:
    """Return bytes of a kind of field, or of a type. Every number is 1, those of items that follow among them."""
    kind = kind.rstrip("!")
    if item := re.fullmatch(r"\[(\w+)( by .*)?\]", kind):
        return (b"" if item[2] else sample("u32")) + sample(item[1])
    if kind.strip("~?") in LAYOUTS["enumerations"]:
        return (2 if kind.endswith("?") else 1) * b"\1"
    if kind in LAYOUTS:
        lines = LAYOUTS[kind]["fields"].strip().splitlines()
        return b"".join(sample(re.split(": | = | [|] ", line)[1]) for line in lines)
    return SAMPLES[kind]


SAMPLES = {
    **{f"u{bits}": (1).to_bytes(bits // 8, "little") for bits in (8, 16, 32, 64, 128)},
    **dict.fromkeys(("bool", "flag"), b"\1"),
    **dict.fromkeys(("text", "bytes"), struct.pack("<I", 4) + b"text"),
    **dict.fromkeys(("u32?", "status"), struct.pack("<I", 1)),
    "f32": struct.pack("<f", 0.5),
    "name": b"\1t",
    "name?": b"\1\1t",
    "password": b"\2pw",
    "identifier": struct.pack("<BBI", 1, 4, 1),
    "consumer": struct.pack("<BBBI", 1, 1, 4, 1),
    "partition?": struct.pack("<BI", 1, 1),
    "polling": struct.pack("<BQ", 1, 1),
    "permissions?": b"\0",
    "Quota": struct.pack("<QQQI", 1, 1, 1, 1),
    "GroupMember": struct.pack("<III", 1, 1, 1),
}


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


def link_inputs() -> Iterator[tuple[str, bytes]]:
    """Yield one frame of every kind in both directions, and each kind of request, answer and refusal."""
    call, namespace, numbers = (
        struct.pack("<Q", 7),
        struct.pack("<Q", 1 << 32 | 2 << 20 | 3),
        struct.pack("<4Q", 1, 2, 3, 4),
    )
    place = namespace + numbers[:16]
    member, trace = struct.pack("<IIQIQ", 1, 2, 3, 4, 5), struct.pack("<3Q", 1, 2, 3)
    poll = struct.pack("<BQIBIBI", 1, 9, 10, 1, 2, 1, 64)
    message = bytes(52) + struct.pack("<IQ", 3, 0) + b"abc"
    consumer = struct.pack("<BI", 2, 5)
    requests = (
        b"\1" + struct.pack("<I", 2) + 2 * message,
        b"\2" + poll,
        b"\3" + consumer,
        b"\4" + consumer + call,
        b"\5" + consumer,
        b"\6\1",
        b"\7" + struct.pack("<I", 3),
    )
    askers = (b"\0", b"\1" + member, b"\2" + trace, b"\3" + member + trace)
    said = [(11001, call + place + asker + request) for request in requests for asker in askers]
    said += [(11002, call + place + b"\0" + bytes([when]) + poll) for when in (1, 2, 3)]
    said += [(11003, call + namespace + bytes([stop])) for stop in (1, 2, 3)]
    said += [(11004, place + b"\0"), (11004, place + b"\1" + numbers), (11005, namespace), (11007, call)]
    said += [(11006, call + struct.pack("<BII", *scope)) for scope in ((1, 0, 0), (2, 1, 0), (3, 1, 2))]
    for code, payload in said:
        yield "link_to_node", struct.pack("<I", code) + payload

    file, storage = struct.pack("<BQ", 1, 1000), struct.pack("<Bi", 2, 28)
    outcomes = [bytes([outcome]) for outcome in (0, 4, *range(16, 22), 32, 34, 35, 36, 41)]
    outcomes += [b"\1" + struct.pack("<QI", 5, 6), b"\3" + numbers[:16], b"\5" + numbers[:16], b"\x21" + call]
    outcomes += [b"\2" + struct.pack("<QQI", 9, 9, 2) + 2 * message, b"\2" + bytes(20)]
    outcomes += [b"\x25" + namespace + call + file + call, b"\x26" + namespace + file + storage]
    outcomes += [b"\x27" + namespace + file + storage, b"\x28" + namespace + b"\1" + struct.pack("<I", 3) + b"why"]
    reported = [(11102, call + outcome) for outcome in outcomes]
    reported += [(11101, call + struct.pack("<IH", 3, 2)), (11103, call), (11104, namespace + numbers)]
    reported += [(11105, call + call), (11106, namespace + call)]
    reported += [(11107, call + 2 * (place + numbers[:16] + struct.pack("<I3QB", 1, 2, 3, 4, 1)))]
    for code, payload in reported:
        yield "link_to_gateway", struct.pack("<I", code) + payload


def ticket_inputs() -> Iterator[tuple[str, bytes]]:
    """Yield the signed contents for each scope, and a malformed ticket."""
    for kind, access in ((1, 3), (2, 1), (3, 2)):
        yield "ticket", bytes([kind, access]) + struct.pack("<IIIQQ", 1, 2, 3, 4, 5) + bytes(range(16)) + b"gateway"
    yield "ticket", b"hrt1." + b"A" * 120


def row_inputs() -> Iterator[tuple[str, bytes]]:
    """Yield buffers of three rows, for columns of any kind."""
    positions = {4: struct.pack("<4I", 0, 4, 8, 12), 8: struct.pack("<4Q", 0, 4, 8, 12)}
    for layout, buffer in ((0x00, positions[4]), (0xAA, positions[8]), (0xFF, b"")):
        for columns in (0x00, 0x21, 0x22, 0x24, 0x28, 0x30):
            for bits in (0x00, 0xFF):
                yield "rows", bytes([3, 0, 0, 16, bits, layout, columns, 8]) + buffer + bytes(range(64))


def inputs(code: int, request: bytes, status: int, response: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the inputs from one exchange, each with its target."""
    yield "frame", struct.pack("<II", len(request) + 4, code) + request
    yield "command", struct.pack("<I", code) + request
    yield "status", struct.pack("<II", status, len(response))
    if status == 0:
        yield "response", struct.pack("<I", code) + response
    if code == CODES["SendMessages"]:
        yield "send_metadata", struct.pack("<H", 32) + request
        metadata_end = 4 + struct.unpack_from("<I", request)[0]
        count = struct.unpack_from("<I", request, metadata_end - 4)[0]
        yield "batch", struct.pack("<B", count) + request[metadata_end:]
        yield from transaction_inputs(request)
        yield from message_inputs(request[metadata_end + count * INDEX_BYTES :])
    if code == CODES["PollMessages"]:
        yield from extension_inputs(request, status, response)
    if code == CODES["PollMessages"] and status == 0:
        # All columns, in large batches and in small ones; checksums unchanged, and corrected.
        yield "columns", b"\xff\xff\xff\xff\xff\x01" + response
        yield "columns", b"\xff\xff\x02\x20\x00\x03" + response
        yield from message_inputs(response[POLLED_HEADER_BYTES:])
    if code in (CODES["CreateUser"], CODES["UpdatePermissions"]):
        # The record ends the request, behind its flag and length. Its shortest form is eleven bytes.
        for start in range(len(request) - 15):
            if request[start] == 1 and struct.unpack_from("<I", request, start + 1)[0] == len(request) - start - 5:
                yield "permissions", request[start + 5 :]


def extension_inputs(request: bytes, status: int, response: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield requests of the extensions built from a recorded poll, as no recording has them."""
    # Consumer and partition are dropped; the identifiers of stream and topic stay.
    stream = 3 + request[2]
    topic = stream + 2 + request[stream + 1]
    path = request[stream : topic + 2 + request[topic + 1]]
    yield "command", struct.pack("<I", CODES["SetTraceContext"]) + bytes(range(25))
    yield "command", struct.pack("<I", CODES["IssueTicket"]) + path + struct.pack("<BI", 3, 60)
    if status == 0:
        yield "response", struct.pack("<I", CODES["WaitMessages"]) + response


def transaction_inputs(request: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a staged batch built from a recorded one."""
    yield "command", struct.pack("<I", CODES["StageMessages"]) + bytes(16) + struct.pack("<IIB", 60, 0, 1) + request


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
    """Yield data from unauthenticated and authenticated peers, with and without the framing of a message."""
    release, claim, nonce, name = 0x0104 << 8, struct.pack("<BBI", 1, 0, 7), bytes(32), b"test"
    for caller, called, replicas in ((1, 0, 3), (2, 0, 3), (1, 2, 3), (0, 0, 3), (1, 0, 5)):
        members = bytes([caller, called, replicas])
        hello = b"HRVR" + struct.pack("<HI", 1, release) + claim + (7).to_bytes(16, "little") + members + nonce
        hello += bytes([len(name)]) + name
        yield "handshake", bytes([2, 0]) + hello
        yield "handshake", bytes([0, 16]) + struct.pack("<HB", len(hello), 1) + hello
    challenge = struct.pack("<I", release) + claim + nonce
    yield "handshake", bytes([3, len(challenge)]) + challenge + claim
    yield "handshake", bytes([1, 16]) + struct.pack("<HB", len(challenge) + 32, 2) + challenge + bytes(32)
    yield "handshake", bytes([1, 255]) + struct.pack("<HB", 2, 5) + b"no"


if __name__ == "__main__":
    main()
