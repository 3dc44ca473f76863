/** What callers ask for. */

import type { NewHeader } from "./headers.ts";
import type { Message, Place } from "./message.ts";

/** Where to begin in a partition. */
export type Start =
  /** With the oldest message. */
  | "first"
  /** With what comes from now on. */
  | "last"
  /** Behind the offset that the consumer has stored; with the oldest message if there is none. */
  | "next"
  | { offset: number }
  /** Microseconds since the Unix epoch, or a date. */
  | { timestamp: number | Date };

export interface TopicRequest {
  /** By number or by name. */
  stream: number | string;
  topic: number | string;
  /** All of them if left out, and those that are added later from their first message. */
  partitions?: readonly number[];
  /** `last` if left out. */
  start?: Start;
}

/** What a header has to be like. */
export type HeaderCondition =
  | { name: string; equals: string | number | boolean }
  | { name: string; prefix: string }
  | { name: string; exists: boolean };

export interface Filter {
  /** All of them have to hold. */
  headers?: readonly HeaderCondition[];
  /** Only the partition that this key leads to is read. */
  key?: string;
}

export interface SubscribeOptions {
  topics: readonly TopicRequest[];
  /** Whose offsets are stored and begun behind: a number or a name. */
  consumer?: number | string;
  filter?: Filter;
  /** How much may be on its way or wait here, of each topic. Left out: 1000 messages, 4 MiB. */
  credit?: { messages: number; bytes: number };
  /** Told of what is neither a message nor an end of the subscription. */
  onNotice?: (notice: Notice) => void;
}

/** What happens to a partition beside messages. */
export type Notice =
  /** It was purged or created anew, or was never as long as the place to resume at: it goes on at `offset`. */
  | ({ type: "reset"; offset: number } & Place)
  /** Messages from `from` to before `to` were removed before they could be sent. */
  | ({ type: "gap"; from: number; to: number } & Place)
  /** It was added to the topic. */
  | ({ type: "added"; offset: number } & Place)
  /** It cannot be read any more. */
  | ({ type: "end"; code: number; reason: string } & Place);

/** Called with each message; the next one waits for what it returns. */
export type Listener = (message: Message) => void | Promise<void>;

export type Partitioning =
  /** The server goes round the partitions. */
  "balanced" | { partition: number } | { key: string };

export interface NewMessage {
  payload: Uint8Array | string;
  /** 128 bits; the server gives one if left out. */
  id?: bigint;
  headers?: Readonly<Record<string, NewHeader>>;
}

export interface ProduceOptions {
  stream: number | string;
  topic: number | string;
  /** `balanced` if left out. */
  partitioning?: Partitioning;
  messages: readonly NewMessage[];
}

export function jsonStart(start: Start): Record<string, unknown> {
  if (typeof start === "string") return { kind: start };
  if ("offset" in start) return { kind: "offset", value: start.offset };
  const { timestamp } = start;
  return { kind: "timestamp", value: timestamp instanceof Date ? timestamp.getTime() * 1000 : timestamp };
}
