/** Binary subprotocol: messages in their stored format, and batches in the append format of the binary protocol. */

import { joined, u64, u128, utf8, viewOf } from "./bytes.ts";
import { decodeHeaders, encodeHeaders, type Header } from "./headers.ts";
import { type Batch, HEADER_BYTES, type Place, type SizedMessage } from "./message.ts";
import type { NewMessage, Partitioning } from "./requests.ts";

const FRAME_BYTES = 48;
const INDEX_BYTES = 16;
const MESSAGES = 1;
const PRODUCE = 1;
const NUMERIC = 1;
const NAMED = 2;

/** Parse a frame with messages. Throws if the frame is invalid. */
export function decodeBatch(buffer: ArrayBuffer): Batch {
  const view = new DataView(buffer);
  if (buffer.byteLength < FRAME_BYTES || view.getUint8(0) !== MESSAGES)
    throw new RangeError("an unknown frame");
  const place = {
    streamId: view.getUint32(8, true),
    topicId: view.getUint32(12, true),
    partitionId: view.getUint32(16, true),
  };
  const count = view.getUint32(20, true);
  const messages: SizedMessage[] = [];
  let at = FRAME_BYTES;
  for (let index = 0; index < count; index += 1) {
    const message = new StoredMessage(place, buffer, view, at);
    messages.push(message);
    at += message.sizeBytes;
  }
  if (at !== buffer.byteLength) throw new RangeError("a frame that is longer than its messages");
  return {
    ...place,
    subscription: view.getUint32(4, true),
    epoch: `${view.getBigUint64(24, true)}.${view.getBigUint64(32, true)}`,
    nextOffset: u64(view, 40),
    messages,
  };
}

/** A message within its frame: nothing is copied, and headers are parsed on first access. */
class StoredMessage implements SizedMessage {
  readonly streamId: number;
  readonly topicId: number;
  readonly partitionId: number;
  readonly id: bigint;
  readonly offset: number;
  readonly timestamp: number;
  readonly originTimestamp: number;
  readonly payload: Uint8Array;
  readonly sizeBytes: number;
  readonly #headers: Uint8Array;

  constructor(place: Place, buffer: ArrayBuffer, view: DataView, at: number) {
    this.streamId = place.streamId;
    this.topicId = place.topicId;
    this.partitionId = place.partitionId;
    this.id = u128(view, at + 8);
    this.offset = u64(view, at + 24);
    this.timestamp = u64(view, at + 32);
    this.originTimestamp = u64(view, at + 40);
    const headersBytes = view.getUint32(at + 48, true);
    const payloadBytes = view.getUint32(at + 52, true);
    // Both throw if the frame is too short.
    this.payload = new Uint8Array(buffer, at + HEADER_BYTES, payloadBytes);
    this.#headers = new Uint8Array(buffer, at + HEADER_BYTES + payloadBytes, headersBytes);
    this.sizeBytes = HEADER_BYTES + payloadBytes + headersBytes;
  }

  get headers(): readonly Header[] | null {
    return decodeHeaders(this.#headers);
  }
}

/** Encode a request to append messages. */
export function encodeProduce(
  id: number,
  stream: number | string,
  topic: number | string,
  partitioning: Partitioning,
  messages: readonly NewMessage[],
): Uint8Array<ArrayBuffer> {
  const metadata = joined([
    identifier(stream),
    identifier(topic),
    partitioningBytes(partitioning),
    u32(messages.length),
  ]);
  const indexes = new Uint8Array(messages.length * INDEX_BYTES);
  const indexView = viewOf(indexes);
  const parts: Uint8Array[] = [];
  let end = 0;
  messages.forEach((message, index) => {
    const payload = typeof message.payload === "string" ? utf8(message.payload) : message.payload;
    const headers = encodeHeaders(message.headers ?? {});
    const header = new Uint8Array(HEADER_BYTES);
    const view = viewOf(header);
    const id = message.id ?? 0n;
    view.setBigUint64(8, id, true);
    view.setBigUint64(16, id >> 64n, true);
    view.setBigUint64(40, BigInt(Date.now()) * 1000n, true);
    view.setUint32(48, headers.length, true);
    view.setUint32(52, payload.length, true);
    parts.push(header, payload, headers);
    end += HEADER_BYTES + payload.length + headers.length;
    indexView.setUint32(index * INDEX_BYTES + 4, end, true);
  });
  return joined([u32(PRODUCE), u32(id), u32(metadata.length), metadata, indexes, ...parts]);
}

function identifier(of: number | string): Uint8Array {
  if (typeof of === "number") return joined([Uint8Array.of(NUMERIC, 4), u32(of)]);
  const name = utf8(of);
  if (name.length < 1 || name.length > 255) throw new RangeError("a name has 1 to 255 bytes");
  return joined([Uint8Array.of(NAMED, name.length), name]);
}

function partitioningBytes(partitioning: Partitioning): Uint8Array {
  if (partitioning === "balanced") return Uint8Array.of(1, 0);
  if ("partition" in partitioning) return joined([Uint8Array.of(2, 4), u32(partitioning.partition)]);
  const key = utf8(partitioning.key);
  if (key.length < 1 || key.length > 255) throw new RangeError("a key has 1 to 255 bytes");
  return joined([Uint8Array.of(3, key.length), key]);
}

function u32(value: number): Uint8Array {
  if (!Number.isInteger(value) || value < 0 || value >= 2 ** 32)
    throw new RangeError(`${value} has not 32 bits`);
  const bytes = new Uint8Array(4);
  viewOf(bytes).setUint32(0, value, true);
  return bytes;
}
