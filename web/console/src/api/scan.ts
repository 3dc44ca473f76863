/** Search for a text through all messages of a topic, from the newest back, in bounded steps. */

import type { Message } from "@headrace/client";
import { poll, search, type TopicPlace } from "./messages.ts";
import { endOf } from "./paging.ts";
import type { Partition } from "./types.ts";

/** Messages that one request searches. */
const STEP = 5000;
/** Messages found, and searched, after which a scan pauses. */
const FOUND_MAX = 50;
const SCANNED_MAX = 500_000;

export interface Progress {
  /** Newest first. */
  messages: Message[];
  scanned: number;
  total: number;
}

interface Part {
  partition: number;
  first: number;
  /** Offset above the messages that have not been searched yet. */
  end: number;
}

/** A scan over the messages that were there when it began; it can be paused and continued. */
export class Scan {
  readonly #topic: TopicPlace;
  readonly #text: string;
  readonly #parts: Part[];
  readonly #total: number;
  #found: Message[] = [];
  #scanned = 0;

  constructor(topic: TopicPlace, partitions: readonly Partition[], text: string) {
    this.#topic = topic;
    this.#text = text;
    this.#parts = partitions.map((partition) => ({
      partition: partition.id,
      first: partition.first_offset,
      end: endOf(partition),
    }));
    this.#total = this.#left();
  }

  get progress(): Progress {
    return { messages: this.#found, scanned: this.#scanned, total: this.#total };
  }

  get isOver(): boolean {
    return this.#left() === 0;
  }

  /** Search on until enough was found or searched; the partitions take turns. Reports after each request. */
  async run(report: (progress: Progress) => void, signal: AbortSignal): Promise<void> {
    const foundMax = this.#found.length + FOUND_MAX;
    const scannedMax = this.#scanned + SCANNED_MAX;
    while (!this.isOver && !signal.aborted) {
      for (const part of this.#parts) {
        if (part.end <= part.first) continue;
        await this.#step(part, report, signal);
        if (this.#found.length >= foundMax || this.#scanned >= scannedMax) return;
      }
    }
  }

  async #step(part: Part, report: (progress: Progress) => void, signal: AbortSignal): Promise<void> {
    const from = Math.max(part.first, part.end - STEP);
    const before = this.#scanned;
    const offsets: number[] = [];
    // A step over large messages takes several requests.
    for (let at: number | null = from; at !== null && at < part.end; ) {
      const step = { text: this.#text, offset: at, count: part.end - at };
      const found = await search(this.#topic, part.partition, step, signal);
      offsets.push(...found.offsets.filter((offset) => offset < part.end));
      at = found.next_offset;
      this.#scanned = before + (at === null ? part.end : Math.min(at, part.end)) - from;
      report(this.progress);
    }
    const messages: Message[] = [];
    for (const offset of offsets.reverse()) {
      const [message] = await poll(this.#topic, part.partition, { offset }, 1, signal);
      // It may have been removed since.
      if (message?.offset === offset) messages.push(message);
      if (messages.length === FOUND_MAX) break;
    }
    // What was not loaded is searched again.
    part.end = messages.length === FOUND_MAX ? (messages.at(-1)?.offset ?? from) : from;
    this.#scanned = this.#total - this.#left();
    this.#found = [...this.#found, ...messages].sort((one, other) => other.timestamp - one.timestamp);
    report(this.progress);
  }

  #left(): number {
    return this.#parts.reduce((sum, { first, end }) => sum + Math.max(0, end - first), 0);
  }
}
