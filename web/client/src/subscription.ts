/** Messages of topics as an async iterable. */

import { ClosedError, type HeadraceError, RefusedError } from "./errors.ts";
import { type Credit, Feed } from "./feed.ts";
import type { Event, Limits, Link } from "./link.ts";
import type { Batch, Message, Place, SizedMessage } from "./message.ts";
import type { Notice, SubscribeOptions } from "./requests.ts";

/** Functions of the client that a subscription needs. */
export interface Requester {
  /** Send an idempotent request over this connection or, if it breaks, over the next one. */
  repeated: (send: (link: Link) => Promise<unknown>) => Promise<unknown>;
  ended: (subscription: Subscription) => void;
}

interface Queued {
  feed: Feed;
  message: SizedMessage;
}

/**
 * Messages in order of arrival. Iterate once: `for await (const message of subscription)`.
 *
 * Leaving the loop ends the subscription. After a reconnect it resumes without gaps or duplicates.
 */
export class Subscription implements AsyncIterableIterator<Message> {
  /** Resolves when the subscription is closed, or rejects with its error. */
  readonly done: Promise<void>;
  readonly #client: Requester;
  readonly #options: SubscribeOptions;
  readonly #feeds: readonly Feed[];
  #queue: Queued[] = [];
  #head = 0;
  #waiting: { resolve: (result: IteratorResult<Message>) => void; reject: (error: Error) => void }[] = [];
  #state: "running" | "closed" | HeadraceError = "running";
  #finish!: { resolve: () => void; reject: (error: Error) => void };

  /** Created by `Client.subscribe`. */
  constructor(client: Requester, options: SubscribeOptions) {
    this.#client = client;
    this.#options = options;
    this.#feeds = options.topics.map((topic) => new Feed(topic, options));
    this.done = new Promise((resolve, reject) => {
      this.#finish = { resolve, reject };
    });
    // An iterating caller gets the error there.
    this.done.catch(() => {});
  }

  /** True if further messages can arrive. */
  get isRunning(): boolean {
    return this.#state === "running";
  }

  /** Store the offset of a message as the last one that its consumer has processed. */
  async ack(message: Place & { offset: number }): Promise<void> {
    if (this.#options.consumer === undefined)
      throw new TypeError("a subscription without a consumer stores nothing");
    const feed = this.#feeds.find((candidate) => candidate.reads(message));
    if (!feed) throw new RangeError("the message is of no partition of this subscription");
    await this.#client.repeated((link) =>
      link.request("ack", {
        subscription: feed.number,
        stream_id: message.streamId,
        topic_id: message.topicId,
        partition_id: message.partitionId,
        offset: message.offset,
      }),
    );
  }

  /** Close the subscription. Queued messages are dropped. */
  async close(): Promise<void> {
    if (this.#state !== "running") return;
    this.#over("closed");
    await Promise.all(this.#feeds.map((feed) => feed.end().catch(() => {})));
  }

  next(): Promise<IteratorResult<Message>> {
    const queued = this.#queue[this.#head];
    if (queued !== undefined) {
      this.#head += 1;
      if (this.#head * 2 > this.#queue.length && this.#head > 64) {
        this.#queue = this.#queue.slice(this.#head);
        this.#head = 0;
      }
      queued.feed.taken(1, queued.message.sizeBytes);
      return Promise.resolve({ value: queued.message, done: false });
    }
    if (this.#state === "closed") return Promise.resolve({ value: undefined, done: true });
    if (this.#state !== "running") return Promise.reject(this.#state);
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  async return(): Promise<IteratorResult<Message>> {
    await this.close();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Internal, for the client: subscribe over a new connection. */
  async begin(link: Link, limits: Limits, number: () => number): Promise<void> {
    await Promise.all(
      this.#feeds.map(async (feed) => {
        await feed.begin(link, number(), limits, this.#waitingOf(feed));
        if (this.#state !== "running") await feed.end();
      }),
    );
  }

  /** Internal, for the client: the connection is lost. */
  pause(): void {
    for (const feed of this.#feeds) feed.pause();
  }

  /** Internal, for the client: process messages. Returns true if they belong to this subscription. */
  received(batch: Batch): boolean {
    const feed = this.#feedOf(batch.subscription);
    if (!feed) return false;
    feed.received(batch);
    for (const message of batch.messages) {
      const waiting = this.#waiting.shift();
      if (waiting) {
        feed.taken(1, message.sizeBytes);
        waiting.resolve({ value: message, done: false });
      } else if (this.#state === "running") this.#queue.push({ feed, message });
    }
    return true;
  }

  /** Internal, for the client: process another event. */
  noticed(event: Event): boolean {
    const feed = this.#feedOf(event.subscription);
    if (!feed) return false;
    let end: Extract<Notice, { type: "end" }> | undefined;
    for (const notice of feed.noticed(event)) {
      if (notice.type === "end") end = notice;
      this.#options.onNotice?.(notice);
    }
    if (end && this.#feeds.every((candidate) => candidate.isOver))
      this.fail(new RefusedError(end.code, end.reason));
    return true;
  }

  /** Internal, for the client: end with an error. Queued messages can still be read. */
  fail(error: HeadraceError): void {
    for (const feed of this.#feeds) void feed.end().catch(() => {});
    this.#over(error instanceof ClosedError && error.closeCode === 1000 ? "closed" : error);
  }

  #over(state: "closed" | HeadraceError): void {
    if (this.#state !== "running") return;
    this.#state = state;
    const waiting = this.#waiting;
    this.#waiting = [];
    if (state === "closed") {
      this.#queue = [];
      this.#head = 0;
      for (const { resolve } of waiting) resolve({ value: undefined, done: true });
      this.#finish.resolve();
    } else {
      for (const { reject } of waiting) reject(state);
      this.#finish.reject(state);
    }
    this.#client.ended(this);
  }

  #feedOf(number: number): Feed | undefined {
    return this.#feeds.find((feed) => feed.number === number);
  }

  #waitingOf(feed: Feed): Credit {
    const waiting = { messages: 0, bytes: 0 };
    for (let index = this.#head; index < this.#queue.length; index += 1) {
      const queued = this.#queue[index];
      if (queued?.feed === feed) {
        waiting.messages += 1;
        waiting.bytes += queued.message.sizeBytes;
      }
    }
    return waiting;
  }
}
