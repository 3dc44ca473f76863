/** State of one topic of a subscription: the position in each partition, across connections. */

import type { Event, Limits, Link } from "./link.ts";
import type { Batch, Place } from "./message.ts";
import { jsonStart, type Notice, type SubscribeOptions, type TopicRequest } from "./requests.ts";

interface Position extends Place {
  epoch: string;
  offset: number;
}

interface JsonPartition {
  stream_id: number;
  topic_id: number;
  partition_id: number;
  epoch: string;
  offset: number;
}

export interface Credit {
  messages: number;
  bytes: number;
}

export class Feed {
  /** Id at the server, different for each connection. */
  number = 0;
  readonly #topic: TopicRequest;
  readonly #options: SubscribeOptions;
  readonly #positions = new Map<number, Position>();
  #hasBegun = false;
  #link: Link | null = null;
  #granted: Credit = { messages: 0, bytes: 0 };
  #consumed: Credit = { messages: 0, bytes: 0 };

  constructor(topic: TopicRequest, options: SubscribeOptions) {
    this.#topic = topic;
    this.#options = options;
  }

  /** True if no further message can arrive. */
  get isOver(): boolean {
    return this.#hasBegun && this.#positions.size === 0;
  }

  /**
   * Subscribe over a new connection, at the current positions or for the first time.
   *
   * @param waiting Messages of earlier connections that are not consumed yet: they count against the credit.
   */
  async begin(link: Link, number: number, limits: Limits, waiting: Credit): Promise<void> {
    const wanted = this.#options.credit ?? { messages: 1000, bytes: 4 * 2 ** 20 };
    this.#granted = {
      messages: Math.max(1, Math.min(wanted.messages, limits.creditMessages)),
      bytes: Math.max(1, Math.min(wanted.bytes, limits.creditBytes)),
    };
    // Credit for queued messages is granted when they are consumed, as if they had arrived over this connection.
    this.#consumed = { messages: 0, bytes: 0 };
    this.#link = link;
    this.number = number;
    const { consumer, filter } = this.#options;
    // Messages after the response may be handled before the callers that await the response resume.
    const before = new Map(this.#positions);
    const answer = await link.request("subscribe", {
      subscription: number,
      topics: [this.#request()],
      ...(consumer === undefined ? {} : { consumer: { id: consumer } }),
      ...(filter === undefined ? {} : { filter }),
      credit: {
        messages: Math.max(0, this.#granted.messages - waiting.messages),
        bytes: Math.max(0, this.#granted.bytes - waiting.bytes),
      },
    });
    const partitions = answer.partitions as JsonPartition[];
    const reported = new Set(partitions.map((partition) => partition.partition_id));
    for (const known of before.keys()) if (!reported.has(known)) this.#positions.delete(known);
    for (const partition of partitions) {
      const { partition_id: id } = partition;
      if (this.#positions.get(id) === before.get(id)) this.#at(partition);
    }
    this.#hasBegun = true;
  }

  /** True if the feed reads this partition. */
  reads({ streamId, topicId, partitionId }: Place): boolean {
    const position = this.#positions.get(partitionId);
    return position?.streamId === streamId && position.topicId === topicId;
  }

  /** Forget the connection, but keep the positions. */
  pause(): void {
    this.#link = null;
  }

  async end(): Promise<void> {
    const link = this.#link;
    this.#link = null;
    await link?.request("unsubscribe", { subscription: this.number });
  }

  /** Advance the positions by received messages. */
  received(batch: Batch): void {
    this.#positions.set(batch.partitionId, {
      streamId: batch.streamId,
      topicId: batch.topicId,
      partitionId: batch.partitionId,
      epoch: batch.epoch,
      offset: batch.nextOffset,
    });
  }

  /** Process an event, and return the notice for the caller. */
  noticed(event: Event): Notice[] {
    const found = event as unknown as JsonPartition & {
      from: number;
      to: number;
      code: number;
      reason: string;
    };
    const place = {
      streamId: found.stream_id,
      topicId: found.topic_id,
      partitionId: found.partition_id,
    };
    const position = this.#positions.get(found.partition_id);
    switch (event.type) {
      case "reset":
        this.#at(found);
        return [{ type: "reset", ...place, offset: found.offset }];
      case "gap":
        if (position) this.#positions.set(found.partition_id, { ...position, offset: found.to });
        return [{ type: "gap", ...place, from: found.from, to: found.to }];
      case "added":
        return (event.partitions as JsonPartition[]).map((partition) => ({
          type: "added",
          ...this.#at(partition),
        }));
      case "end":
        this.#positions.delete(found.partition_id);
        return [{ type: "end", ...place, code: found.code, reason: found.reason }];
      default:
        return [];
    }
  }

  /** Grant credit for consumed messages, in few and large portions. */
  taken(messages: number, bytes: number): void {
    this.#consumed.messages += messages;
    this.#consumed.bytes += bytes;
    if (
      this.#link !== null &&
      (this.#consumed.messages * 2 >= this.#granted.messages ||
        this.#consumed.bytes * 2 >= this.#granted.bytes)
    ) {
      this.#link.send("credit", { subscription: this.number, ...this.#consumed });
      this.#consumed = { messages: 0, bytes: 0 };
    }
  }

  #request(): Record<string, unknown> {
    const { stream, topic, partitions, start } = this.#topic;
    const positions = [...this.#positions.values()];
    return {
      stream,
      topic,
      ...(partitions === undefined ? {} : { partitions }),
      // A partition created while the client was disconnected is read from its first message.
      start: this.#hasBegun ? { kind: "first" } : jsonStart(start ?? "last"),
      positions: positions.map(({ partitionId, offset, epoch }) => ({
        partition_id: partitionId,
        offset,
        epoch,
      })),
    };
  }

  #at({ stream_id, topic_id, partition_id, epoch, offset }: JsonPartition): Place & { offset: number } {
    const place = { streamId: stream_id, topicId: topic_id, partitionId: partition_id };
    this.#positions.set(partition_id, { ...place, epoch, offset });
    return { ...place, offset };
  }
}
