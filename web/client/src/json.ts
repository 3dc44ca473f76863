/** JSON subprotocol: the same functions as text, for environments without binary frames. */

import { fromBase64, toBase64, utf8 } from "./bytes.ts";
import { decodeJsonHeaders, encodeHeaders, encodeJsonHeaders, type JsonHeaders } from "./headers.ts";
import { type Batch, HEADER_BYTES } from "./message.ts";
import type { NewMessage, Partitioning } from "./requests.ts";

export interface JsonBatch {
  subscription: number;
  stream_id: number;
  topic_id: number;
  partition_id: number;
  epoch: string;
  next_offset: number;
  messages: {
    offset: number;
    timestamp: number;
    origin_timestamp: number;
    id: string;
    headers: JsonHeaders | string;
    payload: string;
  }[];
}

export function decodeJsonBatch(found: JsonBatch): Batch {
  const place = { streamId: found.stream_id, topicId: found.topic_id, partitionId: found.partition_id };
  return {
    ...place,
    subscription: found.subscription,
    epoch: found.epoch,
    nextOffset: found.next_offset,
    messages: found.messages.map((message) => {
      const payload = fromBase64(message.payload);
      return {
        ...place,
        offset: message.offset,
        timestamp: message.timestamp,
        originTimestamp: message.origin_timestamp,
        id: BigInt(message.id),
        payload,
        headers: decodeJsonHeaders(message.headers),
        sizeBytes: HEADER_BYTES + payload.length + headersBytes(message.headers),
      };
    }),
  };
}

/** Each of the two fields of a header is prefixed with five bytes. */
function headersBytes(headers: JsonHeaders | string): number {
  const bytes = (encoded: string) => (encoded.length / 4) * 3 - (encoded.match(/=*$/)?.[0].length ?? 0);
  if (typeof headers === "string") return bytes(headers);
  return headers.reduce((sum, { key, value }) => sum + 10 + bytes(key.value) + bytes(value.value), 0);
}

/** Build the fields of a request to append messages. */
export function jsonProduce(
  stream: number | string,
  topic: number | string,
  partitioning: Partitioning,
  messages: readonly NewMessage[],
): Record<string, unknown> {
  return {
    stream,
    topic,
    partitioning: jsonPartitioning(partitioning),
    messages: messages.map(({ payload, id, headers }) => {
      // Headers that are invalid in the binary format are invalid here, too.
      if (headers) encodeHeaders(headers);
      return {
        payload: toBase64(typeof payload === "string" ? utf8(payload) : payload),
        ...(id === undefined ? {} : { id: String(id) }),
        ...(headers === undefined ? {} : { headers: encodeJsonHeaders(headers) }),
      };
    }),
  };
}

function jsonPartitioning(partitioning: Partitioning): Record<string, unknown> {
  if (partitioning === "balanced") return { kind: "balanced" };
  if ("partition" in partitioning) return { kind: "partition_id", value: partitioning.partition };
  return { kind: "messages_key", value: partitioning.key };
}
