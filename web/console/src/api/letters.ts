/** Dead letters on their way back to the topic that they came from. */

import type { Message } from "@headrace/client";
import { textOrNull } from "../hex.ts";
import { isOfLetter, KEY_HEADER, type Origin } from "../message_text.ts";
import { bytesOf, type PolledMessages } from "./messages.ts";
import { get, request } from "./request.ts";
import type { Stream, Topic } from "./types.ts";

/**
 * Send the message of a dead letter to a topic: payload, key and id, and its headers as they are stored, without those
 * that were added to the letter.
 */
export async function sendBack(letter: Message, { stream, topic }: Origin): Promise<void> {
  const { streamId, topicId, partitionId, offset } = letter;
  const query = `partition_id=${partitionId}&kind=offset&value=${offset}&count=1&numbers=text`;
  const { messages } = await get<PolledMessages>(`/streams/${streamId}/topics/${topicId}/messages?${query}`);
  const stored = messages[0];
  if (
    stored === undefined ||
    BigInt(stored.header.id) !== letter.id ||
    typeof stored.user_headers === "string"
  ) {
    throw new Error("This message is not in the topic any more.");
  }
  const headers = stored.user_headers.filter(({ key }) => !isOfLetter(nameOf(key)));
  const key = headers.find((header) => nameOf(header.key) === KEY_HEADER)?.value.value;
  const streamPart = await placeOf(stream, "/streams");
  const topics = `/streams/${streamPart}/topics`;
  await request("POST", `${topics}/${await placeOf(topic, topics)}/messages`, {
    partitioning: key === undefined ? { kind: "balanced", value: "" } : { kind: "messages_key", value: key },
    messages: [{ id: stored.header.id, payload: stored.payload, user_headers: headers }],
  });
}

function nameOf({ value }: { value: string }): string {
  return textOrNull(bytesOf(value)) ?? "";
}

/** Part of a path that stands for a name. A number in a path is an id, so a name of digits is looked up. */
async function placeOf(name: string, list: string): Promise<string> {
  if (!/^\+?\d+$/.test(name)) return encodeURIComponent(name);
  const found = (await get<(Stream | Topic)[]>(list)).find((one) => one.name === name);
  if (found === undefined)
    throw new Error(`There is no ${list === "/streams" ? "stream" : "topic"} “${name}”.`);
  return String(found.id);
}
