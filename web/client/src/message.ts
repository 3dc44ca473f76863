/** A message as it came. */

import { text } from "./bytes.ts";
import type { Header } from "./headers.ts";

export interface Place {
  readonly streamId: number;
  readonly topicId: number;
  readonly partitionId: number;
}

/** One message of a partition. */
export interface Message extends Place {
  readonly offset: number;
  /** When the server appended it: microseconds since the Unix epoch. */
  readonly timestamp: number;
  /** When its producer made it, as far as it said so. */
  readonly originTimestamp: number;
  readonly id: bigint;
  readonly payload: Uint8Array;
  /** Null when they cannot be read. */
  readonly headers: readonly Header[] | null;
}

/** The payload as text. Throws when it is no UTF-8. */
export function textOf(message: Pick<Message, "payload">): string {
  return text(message.payload);
}

/** The payload as JSON. Throws when it is none. */
export function jsonOf<Value = unknown>(message: Pick<Message, "payload">): Value {
  return JSON.parse(text(message.payload)) as Value;
}

/** Bytes that it takes of a subscription's credit: 64 for the header of the binary form, its headers, its payload. */
export const HEADER_BYTES = 64;

/** Messages of one partition that came together. */
export interface Batch extends Place {
  readonly subscription: number;
  readonly epoch: string;
  /** Where reading goes on. */
  readonly nextOffset: number;
  readonly messages: readonly SizedMessage[];
}

export interface SizedMessage extends Message {
  /** What it takes of the credit. */
  readonly sizeBytes: number;
}
