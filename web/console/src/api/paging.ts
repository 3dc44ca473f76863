/** Pages of the messages of several partitions, merged by their time. */

import type { Message } from "@headrace/client";
import { poll, type TopicPlace } from "./messages.ts";
import type { Partition } from "./types.ts";

/** Place between two messages: the offset of the next message in each partition, by partition id. */
export type Position = ReadonlyMap<number, number>;

/** Messages in ascending order, with the places before and after them. */
export interface MessagePage {
  messages: Message[];
  before: Position;
  after: Position;
}

/** Ask for few messages of each of many partitions first: a partition that is used up is asked again. */
const CHUNK_MIN = 5;

export function endOf(partition: Partition): number {
  return partition.messages_count > 0 ? partition.current_offset + 1 : partition.first_offset;
}

export function ends(partitions: readonly Partition[]): Position {
  return new Map(partitions.map((partition) => [partition.id, endOf(partition)]));
}

export function beginnings(partitions: readonly Partition[]): Position {
  return new Map(partitions.map((partition) => [partition.id, partition.first_offset]));
}

/** The same offset in each partition, as far as it has one. */
export function atOffset(partitions: readonly Partition[], offset: number): Position {
  return new Map(
    partitions.map((partition) => [
      partition.id,
      Math.min(Math.max(offset, partition.first_offset), endOf(partition)),
    ]),
  );
}

/** The first messages since a time. */
export async function atTime(
  topic: TopicPlace,
  partitions: readonly Partition[],
  time: Date,
  signal: AbortSignal,
): Promise<Position> {
  const offsets = await Promise.all(
    partitions.map(async (partition) => {
      if (partition.messages_count === 0) return endOf(partition);
      const [first] = await poll(topic, partition.id, { time }, 1, signal);
      return first?.offset ?? endOf(partition);
    }),
  );
  return new Map(partitions.map((partition, index) => [partition.id, offsets[index] ?? endOf(partition)]));
}

/** Number of messages between two places. */
export function between(from: Position, to: Position): number {
  let sum = 0;
  for (const [partition, offset] of to) sum += Math.max(0, offset - (from.get(partition) ?? offset));
  return sum;
}

export async function pageAfter(
  topic: TopicPlace,
  partitions: readonly Partition[],
  before: Position,
  size: number,
  signal: AbortSignal,
): Promise<MessagePage> {
  const chunk = chunkOf(size, partitions.length);
  const readers = partitions.map((partition) => {
    let at = before.get(partition.id) ?? partition.first_offset;
    return new Reader(async () => {
      if (at >= endOf(partition)) return [];
      const read = await poll(topic, partition.id, { offset: at }, chunk, signal);
      at = (read.at(-1)?.offset ?? at) + 1;
      return read;
    });
  });
  const messages = await merged(readers, size, (one, other) => one.timestamp < other.timestamp);
  const after = new Map(before);
  for (const { partitionId, offset } of messages) after.set(partitionId, offset + 1);
  return { messages, before, after };
}

export async function pageBefore(
  topic: TopicPlace,
  partitions: readonly Partition[],
  after: Position,
  size: number,
  signal: AbortSignal,
): Promise<MessagePage> {
  const chunk = chunkOf(size, partitions.length);
  const readers = partitions.map((partition) => {
    let end = after.get(partition.id) ?? endOf(partition);
    return new Reader(async () => {
      if (end <= partition.first_offset) return [];
      const from = Math.max(partition.first_offset, end - chunk);
      const read = await range(topic, partition.id, from, end, signal);
      end = from;
      return read.reverse();
    });
  });
  const messages = await merged(readers, size, (one, other) => one.timestamp >= other.timestamp);
  const before = new Map(after);
  for (const { partitionId, offset } of messages) before.set(partitionId, offset);
  return { messages: messages.reverse(), before, after };
}

/** Read all messages of a range of offsets, in as many requests as their size takes. */
async function range(
  topic: TopicPlace,
  partition: number,
  from: number,
  end: number,
  signal: AbortSignal,
): Promise<Message[]> {
  const found: Message[] = [];
  for (let at = from; at < end; ) {
    const read = await poll(topic, partition, { offset: at }, end - at, signal);
    // What was removed meanwhile is skipped by the server.
    found.push(...read.filter(({ offset }) => offset < end));
    const last = read.at(-1);
    if (last === undefined) break;
    at = last.offset + 1;
  }
  return found;
}

function chunkOf(size: number, partitions: number): number {
  return Math.min(size, Math.max(CHUNK_MIN, Math.ceil((2 * size) / Math.max(1, partitions))));
}

/** Messages of one partition in the direction of reading, read as they are needed. */
class Reader {
  #buffered: Message[] = [];
  #isOver = false;
  readonly #read: () => Promise<Message[]>;

  constructor(read: () => Promise<Message[]>) {
    this.#read = read;
  }

  get head(): Message | undefined {
    return this.#buffered[0];
  }

  get needsMore(): boolean {
    return this.#buffered.length === 0 && !this.#isOver;
  }

  async fill(): Promise<void> {
    this.#buffered = await this.#read();
    this.#isOver = this.#buffered.length === 0;
  }

  take(): Message | undefined {
    return this.#buffered.shift();
  }
}

/** The order within a partition is kept whatever its timestamps are. */
async function merged(
  readers: readonly Reader[],
  size: number,
  isBefore: (one: Message, other: Message) => boolean,
): Promise<Message[]> {
  const found: Message[] = [];
  while (found.length < size) {
    await Promise.all(readers.filter((reader) => reader.needsMore).map((reader) => reader.fill()));
    let best: Reader | undefined;
    for (const reader of readers) {
      if (reader.head === undefined) continue;
      if (best?.head === undefined || isBefore(reader.head, best.head)) best = reader;
    }
    const message = best?.take();
    if (message === undefined) break;
    found.push(message);
  }
  return found;
}
