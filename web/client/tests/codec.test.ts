/** Codecs of the binary and the JSON format, without a server. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBatch, encodeProduce } from "../src/binary.ts";
import { fromBase64, toBase64 } from "../src/bytes.ts";
import {
  decodeHeaders,
  decodeJsonHeaders,
  encodeHeaders,
  encodeJsonHeaders,
  type NewHeader,
} from "../src/headers.ts";
import { decodeJsonBatch } from "../src/json.ts";

const EVERY_KIND: Record<string, NewHeader> = {
  text: "grüße",
  yes: true,
  bytes: Uint8Array.of(0, 255),
  whole: -7,
  half: 0.5,
  i8: { kind: "int8", value: -128 },
  i16: { kind: "int16", value: -300 },
  i32: { kind: "int32", value: 2 ** 31 - 1 },
  i128: { kind: "int128", value: -(2n ** 127n) },
  u8: { kind: "uint8", value: 255 },
  u16: { kind: "uint16", value: 65_535 },
  u32: { kind: "uint32", value: 2 ** 32 - 1 },
  u64: { kind: "uint64", value: 2n ** 64n - 1n },
  u128: { kind: "uint128", value: 2n ** 128n - 1n },
  f32: { kind: "float32", value: 0.25 },
};

test("headers of every kind come back, in both forms", () => {
  const binary = decodeHeaders(encodeHeaders(EVERY_KIND));
  assert.deepEqual(decodeJsonHeaders(encodeJsonHeaders(EVERY_KIND)), binary);
  const values = Object.fromEntries(binary?.map(({ key, value }) => [key, value]) ?? []);
  assert.deepEqual(values, {
    text: "grüße",
    yes: true,
    bytes: Uint8Array.of(0, 255),
    whole: -7n,
    half: 0.5,
    i8: -128,
    i16: -300,
    i32: 2 ** 31 - 1,
    i128: -(2n ** 127n),
    u8: 255,
    u16: 65_535,
    u32: 2 ** 32 - 1,
    u64: 2n ** 64n - 1n,
    u128: 2n ** 128n - 1n,
    f32: 0.25,
  });
});

test("headers that are cut anywhere are damaged, not misread", () => {
  const whole = encodeHeaders(EVERY_KIND);
  const ends = new Set([0, whole.length]);
  for (const name of Object.keys(EVERY_KIND)) {
    const upTo = Object.entries(EVERY_KIND).slice(0, Object.keys(EVERY_KIND).indexOf(name));
    ends.add(encodeHeaders(Object.fromEntries(upTo)).length);
  }
  for (let end = 0; end <= whole.length; end += 1) {
    assert.equal(decodeHeaders(whole.subarray(0, end)) !== null, ends.has(end), `cut at ${end}`);
  }
});

test("values that have no such form are refused", () => {
  assert.throws(() => encodeHeaders({ a: "" }), RangeError);
  assert.throws(() => encodeHeaders({ a: "x".repeat(256) }), RangeError);
  assert.throws(() => encodeHeaders({ a: { kind: "uint8", value: 256 } }), RangeError);
  assert.throws(() => encodeHeaders({ a: { kind: "uint8", value: -1 } }), RangeError);
  assert.throws(() => encodeProduce(1, "", "t", "balanced", [{ payload: "x" }]), RangeError);
  assert.throws(() => encodeProduce(1, "s", 2 ** 32, "balanced", [{ payload: "x" }]), RangeError);
});

function frame(...messages: { offset: bigint; payload: string; headers?: Uint8Array }[]): ArrayBuffer {
  const parts = messages.map(({ offset, payload, headers = new Uint8Array() }) => {
    const bytes = new TextEncoder().encode(payload);
    const message = new Uint8Array(64 + bytes.length + headers.length);
    const view = new DataView(message.buffer);
    view.setBigUint64(8, 7n, true);
    view.setBigUint64(16, 1n, true);
    view.setBigUint64(24, offset, true);
    view.setBigUint64(32, 1_700_000_000_000_001n, true);
    view.setUint32(48, headers.length, true);
    view.setUint32(52, bytes.length, true);
    message.set(bytes, 64);
    message.set(headers, 64 + bytes.length);
    return message;
  });
  const length = parts.reduce((sum, part) => sum + part.length, 48);
  const whole = new Uint8Array(length);
  const view = new DataView(whole.buffer);
  view.setUint8(0, 1);
  [3, 4, 5, 6, messages.length].forEach((value, index) => {
    view.setUint32(4 + 4 * index, value, true);
  });
  view.setBigUint64(24, 2n ** 63n, true);
  view.setBigUint64(32, 9n, true);
  view.setBigUint64(40, 2n ** 53n - 1n, true);
  let at = 48;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole.buffer;
}

test("a frame with messages", () => {
  const headers = encodeHeaders({ a: 1 });
  const batch = decodeBatch(
    frame({ offset: 2n ** 52n, payload: "one" }, { offset: 2n, payload: "", headers }),
  );
  assert.equal(batch.subscription, 3);
  assert.deepEqual([batch.streamId, batch.topicId, batch.partitionId], [4, 5, 6]);
  assert.equal(batch.epoch, "9223372036854775808.9");
  assert.equal(batch.nextOffset, 2 ** 53 - 1);
  const [first, second] = batch.messages;
  assert.equal(first?.offset, 2 ** 52);
  assert.equal(first?.id, 2n ** 64n + 7n);
  assert.equal(first?.timestamp, 1_700_000_000_000_001);
  assert.deepEqual(first?.headers, []);
  assert.deepEqual(second?.headers, decodeHeaders(headers));
  assert.equal(second?.sizeBytes, 64 + headers.length);
});

test("a frame that is cut anywhere is refused", () => {
  const whole = frame({ offset: 0n, payload: "one" }, { offset: 1n, payload: "two" });
  for (let end = 0; end < whole.byteLength; end += 1) {
    assert.throws(() => decodeBatch(whole.slice(0, end)), RangeError, `cut at ${end}`);
  }
  const longer = new Uint8Array(whole.byteLength + 1);
  longer.set(new Uint8Array(whole));
  assert.throws(() => decodeBatch(longer.buffer), RangeError);
});

test("both forms take the same of the credit", () => {
  const headers = encodeHeaders(EVERY_KIND);
  const binary = decodeBatch(frame({ offset: 0n, payload: "payload", headers }));
  const json = decodeJsonBatch({
    subscription: 3,
    stream_id: 4,
    topic_id: 5,
    partition_id: 6,
    epoch: "1.0",
    next_offset: 1,
    messages: [
      {
        offset: 0,
        timestamp: 0,
        origin_timestamp: 0,
        id: "18446744073709551623",
        headers: encodeJsonHeaders(EVERY_KIND),
        payload: toBase64(new TextEncoder().encode("payload")),
      },
    ],
  });
  assert.equal(json.messages[0]?.sizeBytes, binary.messages[0]?.sizeBytes);
  assert.equal(json.messages[0]?.id, binary.messages[0]?.id);
});

test("base64 of any length comes back", () => {
  for (const length of [0, 1, 2, 3, 8191, 8192, 8193, 100_000]) {
    const bytes = Uint8Array.from({ length }, (_, index) => (index * 7) % 256);
    assert.deepEqual(fromBase64(toBase64(bytes)), bytes);
  }
});
