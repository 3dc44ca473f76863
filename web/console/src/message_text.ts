/** Messages as short texts, for rows of tables and for searching. */

import type { Header, HeaderValue, Message } from "@headrace/client";
import { textOrNull } from "./hex.ts";

const PREVIEW_BYTES = 600;
/** A character of UTF-8 has at most four bytes. */
const CUT_BYTES_MAX = 3;

/** Beginning of a payload, as text or as bytes. */
export function preview(payload: Uint8Array): string {
  for (let cut = 0; cut <= CUT_BYTES_MAX; cut += 1) {
    const text = textOrNull(payload.subarray(0, PREVIEW_BYTES - cut));
    if (text !== null) return text;
    if (payload.length <= PREVIEW_BYTES) break;
  }
  return Array.from(payload.subarray(0, 64), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** Bytes that are a text, as keys usually are, are shown as such. */
export function shownValue(value: HeaderValue): string {
  if (!(value instanceof Uint8Array)) return String(value);
  const text = textOrNull(value);
  if (text !== null) return text;
  return Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

export function headersText(headers: readonly Header[] | null): string {
  if (headers === null) return "not readable";
  return headers.map(({ key, value }) => `${shownValue(key)}=${shownValue(value)}`).join(" ");
}

/** Header in which producers of the SDK keep the key of a message. */
export const KEY_HEADER = "headrace.key";
/** Headers with which consumers say why a message is in a dead-letter topic. */
const DEAD_LETTER_PREFIX = "x-dead-letter-";
export const REASON_HEADER = `${DEAD_LETTER_PREFIX}reason`;

/** Topic that a dead letter came from. */
export interface Origin {
  stream: string;
  topic: string;
  /** Reason why its own headers are missing; null: it has them. */
  lost: string | null;
}

/** Origin of a dead letter; null if the message does not say that it is one. */
export function originOf(message: Message): Origin | null {
  const stream = headerOf(message, `${DEAD_LETTER_PREFIX}stream`);
  const topic = headerOf(message, `${DEAD_LETTER_PREFIX}topic`);
  if (stream === null || topic === null) return null;
  return { stream, topic, lost: headerOf(message, `${DEAD_LETTER_PREFIX}headers`) };
}

/** True for the headers that a letter has because it is one. */
export function isOfLetter(name: string): boolean {
  return name.startsWith(DEAD_LETTER_PREFIX);
}

/** Names of the headers that most of the messages have, for columns of their own. */
export function commonHeaders(messages: readonly Message[], countMax: number): string[] {
  const counts = new Map<string, number>();
  for (const { headers } of messages) {
    for (const name of new Set(headers?.map(({ key }) => shownValue(key)))) {
      if (name === KEY_HEADER || name.startsWith(DEAD_LETTER_PREFIX)) continue;
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  }
  const names = [...counts].sort(
    ([one, often], [other, rarely]) => rarely - often || one.localeCompare(other),
  );
  return names.slice(0, countMax).map(([name]) => name);
}

/** Value of a header as a text; null if the message does not have it. */
export function headerOf({ headers }: Message, name: string): string | null {
  const found = headers?.find(({ key }) => shownValue(key) === name);
  return found === undefined ? null : shownValue(found.value);
}

/** True if payload or headers contain the text, in either case. */
export function contains(message: Message, text: string): boolean {
  const wanted = text.toLowerCase();
  const payload = textOrNull(message.payload) ?? new TextDecoder().decode(message.payload);
  return (
    payload.toLowerCase().includes(wanted) || headersText(message.headers).toLowerCase().includes(wanted)
  );
}
