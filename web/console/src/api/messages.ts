/** Reading and searching messages of one partition over the HTTP API. */

import { decodeJsonHeaders, type JsonHeaders, type Message } from "@headrace/client";
import { get } from "./request.ts";

/** Answer to a poll with `numbers=text`, which keeps all digits of ids. */
export interface PolledMessages {
  messages: {
    header: { id: string; offset: string; timestamp: string; origin_timestamp: string };
    payload: string;
    user_headers: JsonHeaders | string;
  }[];
}

/** A topic in the API, with the ids that its messages get. */
export interface TopicPlace {
  path: string;
  streamId: number;
  topicId: number;
}

export type From = { offset: number } | { time: Date };

/** Read messages of a partition. Fewer than `count` are returned at its end, or if the messages are large. */
export async function poll(
  topic: TopicPlace,
  partition: number,
  from: From,
  count: number,
  signal?: AbortSignal,
): Promise<Message[]> {
  const [kind, value] =
    "offset" in from ? ["offset", from.offset] : ["timestamp", Math.max(0, from.time.getTime() * 1000)];
  const query = `partition_id=${partition}&kind=${kind}&value=${value}&count=${count}&numbers=text`;
  const { messages } = await get<PolledMessages>(`${topic.path}/messages?${query}`, signal);
  return messages.map(({ header, payload, user_headers }) => ({
    streamId: topic.streamId,
    topicId: topic.topicId,
    partitionId: partition,
    offset: Number(header.offset),
    timestamp: Number(header.timestamp),
    originTimestamp: Number(header.origin_timestamp),
    id: BigInt(header.id),
    payload: bytesOf(payload),
    headers: decodeJsonHeaders(user_headers),
  }));
}

/** Bytes that JSON has in base64. */
export function bytesOf(encoded: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
}

export interface Found {
  offsets: number[];
  scanned: number;
  next_offset: number | null;
}

/** Let the server search a bounded part of a partition. */
export function search(
  topic: TopicPlace,
  partition: number,
  { text, offset, count }: { text: string; offset: number; count: number },
  signal: AbortSignal,
): Promise<Found> {
  const query = new URLSearchParams({
    text,
    partition_id: String(partition),
    offset: String(offset),
    count: String(count),
  });
  return get<Found>(`${topic.path}/messages/search?${query}`, signal);
}
