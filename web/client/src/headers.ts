/** Message headers: typed keys and values. */

import { fromBase64, joined, text, toBase64, utf8, viewOf } from "./bytes.ts";

/** Kinds in the order of their codes in the binary format, from 1. */
const KINDS = [
  "raw",
  "string",
  "bool",
  "int8",
  "int16",
  "int32",
  "int64",
  "int128",
  "uint8",
  "uint16",
  "uint32",
  "uint64",
  "uint128",
  "float32",
  "float64",
] as const;

export type HeaderKind = (typeof KINDS)[number];

/** Numbers of 64 bits and more are `bigint`, other numbers `number`, raw values `Uint8Array`. */
export type HeaderValue = string | number | bigint | boolean | Uint8Array;

/** A received header. */
export interface Header {
  readonly key: HeaderValue;
  readonly keyKind: HeaderKind;
  readonly value: HeaderValue;
  readonly kind: HeaderKind;
}

/** A header to send: a value whose type determines the kind, or a value of an explicit kind. */
export type NewHeader =
  | string
  | boolean
  | number
  | bigint
  | Uint8Array
  | { kind: HeaderKind; value: HeaderValue };

interface Field {
  kind: HeaderKind;
  bytes: Uint8Array;
}

/** A field in the JSON format. */
export interface JsonField {
  kind: string;
  value: string;
}

export type JsonHeaders = { key: JsonField; value: JsonField }[];

/** Parse the binary format; null if the bytes are invalid. */
export function decodeHeaders(bytes: Uint8Array): Header[] | null {
  const found: Header[] = [];
  const view = viewOf(bytes);
  let at = 0;
  const field = (): Field => {
    const kind = KINDS[view.getUint8(at) - 1];
    const length = view.getUint32(at + 1, true);
    const end = at + 5 + length;
    if (kind === undefined || length === 0 || end > bytes.length) throw new RangeError("a damaged header");
    const value = bytes.subarray(at + 5, end);
    at = end;
    return { kind, bytes: value };
  };
  try {
    while (at < bytes.length) found.push(header(field(), field()));
  } catch {
    return null;
  }
  return found;
}

/** Parse the JSON format, which is a text if the server could not parse the headers. */
export function decodeJsonHeaders(headers: JsonHeaders | string): Header[] | null {
  if (typeof headers === "string") return headers === "" ? [] : decodeHeaders(fromBase64(headers));
  try {
    return headers.map(({ key, value }) => header(jsonField(key), jsonField(value)));
  } catch {
    return null;
  }
}

export function encodeHeaders(headers: Readonly<Record<string, NewHeader>>): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  for (const [name, given] of Object.entries(headers)) {
    for (const { kind, bytes } of [{ kind: "string", bytes: utf8(name) } as const, fieldOf(given)]) {
      if (bytes.length < 1 || bytes.length > 255) throw new RangeError(`header ${name}: 1 to 255 bytes`);
      const prefix = new Uint8Array(5);
      prefix[0] = KINDS.indexOf(kind) + 1;
      viewOf(prefix).setUint32(1, bytes.length, true);
      parts.push(prefix, bytes);
    }
  }
  return joined(parts);
}

export function encodeJsonHeaders(headers: Readonly<Record<string, NewHeader>>): JsonHeaders {
  return Object.entries(headers).map(([name, given]) => {
    const { kind, bytes } = fieldOf(given);
    return { key: { kind: "string", value: toBase64(utf8(name)) }, value: { kind, value: toBase64(bytes) } };
  });
}

function jsonField({ kind, value }: JsonField): Field {
  if (!KINDS.includes(kind as HeaderKind)) throw new RangeError(`header kind ${kind}`);
  return { kind: kind as HeaderKind, bytes: fromBase64(value) };
}

function header(key: Field, value: Field): Header {
  return { key: decodeValue(key), keyKind: key.kind, value: decodeValue(value), kind: value.kind };
}

function decodeValue({ kind, bytes }: Field): HeaderValue {
  if (kind === "raw") return bytes;
  if (kind === "string") return text(bytes);
  if (bytes.length !== widthOf(kind)) throw new RangeError(`${bytes.length} bytes are no ${kind}`);
  const view = viewOf(bytes);
  switch (kind) {
    case "bool":
      return view.getUint8(0) !== 0;
    case "int8":
      return view.getInt8(0);
    case "int16":
      return view.getInt16(0, true);
    case "int32":
      return view.getInt32(0, true);
    case "int64":
      return view.getBigInt64(0, true);
    case "int128":
      return (view.getBigInt64(8, true) << 64n) | view.getBigUint64(0, true);
    case "uint8":
      return view.getUint8(0);
    case "uint16":
      return view.getUint16(0, true);
    case "uint32":
      return view.getUint32(0, true);
    case "uint64":
      return view.getBigUint64(0, true);
    case "uint128":
      return (view.getBigUint64(8, true) << 64n) | view.getBigUint64(0, true);
    case "float32":
      return view.getFloat32(0, true);
    case "float64":
      return view.getFloat64(0, true);
  }
}

function widthOf(kind: Exclude<HeaderKind, "raw" | "string">): number {
  return kind === "bool" ? 1 : Number(kind.replace(/\D+/, "")) / 8;
}

function fieldOf(given: NewHeader): Field {
  if (typeof given === "object" && !(given instanceof Uint8Array)) return encoded(given.kind, given.value);
  switch (typeof given) {
    case "string":
      return encoded("string", given);
    case "boolean":
      return encoded("bool", given);
    case "bigint":
      return encoded("int64", given);
    case "number":
      return Number.isSafeInteger(given) ? encoded("int64", BigInt(given)) : encoded("float64", given);
    default:
      return { kind: "raw", bytes: given };
  }
}

function encoded(kind: HeaderKind, value: HeaderValue): Field {
  if (value instanceof Uint8Array) return { kind, bytes: value };
  if (kind === "string" || kind === "raw") return { kind, bytes: utf8(String(value)) };
  const bytes = new Uint8Array(widthOf(kind));
  const view = viewOf(bytes);
  if (kind === "float32") view.setFloat32(0, Number(value), true);
  else if (kind === "float64") view.setFloat64(0, Number(value), true);
  else {
    const whole = BigInt(value);
    const bits = bytes.length * 8;
    const kept = kind.startsWith("int") ? BigInt.asIntN(bits, whole) : BigInt.asUintN(bits, whole);
    if (kept !== whole) throw new RangeError(`${value} is no ${kind}`);
    for (let index = 0; index < bytes.length; index += 1) {
      bytes[index] = Number((whole >> BigInt(8 * index)) & 0xffn);
    }
  }
  return { kind, bytes };
}
