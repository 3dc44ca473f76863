/** A received message. */

import { text } from "./bytes.ts";
import type { Header } from "./headers.ts";

export interface Place {
  readonly streamId: number;
  readonly topicId: number;
  readonly partitionId: number;
}

/** A message of a partition. */
export interface Message extends Place {
  readonly offset: number;
  /** Server timestamp of the append: microseconds since the Unix epoch. */
  readonly timestamp: number;
  /** Producer timestamp, if set. */
  readonly originTimestamp: number;
  readonly id: bigint;
  readonly payload: Uint8Array;
  /** Null if the headers cannot be parsed. */
  readonly headers: readonly Header[] | null;
}

/** Payload as text. Throws if the bytes are not valid UTF-8. */
export function textOf(message: Pick<Message, "payload">): string {
  return text(message.payload);
}

/** Payload as JSON. Throws if the text is not valid JSON. */
export function jsonOf<Value = unknown>(message: Pick<Message, "payload">): Value {
  return JSON.parse(text(message.payload)) as Value;
}

/** Bytes that count against the credit: 64 for the header of the binary format, user headers, payload. */
export const HEADER_BYTES = 64;

/** Messages of one partition that arrived together. */
export interface Batch extends Place {
  readonly subscription: number;
  readonly epoch: string;
  /** Offset at which reading continues. */
  readonly nextOffset: number;
  readonly messages: readonly SizedMessage[];
}

export interface SizedMessage extends Message {
  /** Credit used by the messages. */
  readonly sizeBytes: number;
}
