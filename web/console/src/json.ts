/** JSON with exact numbers: parsing and writing would round those beyond 2^53. */

export type Json =
  | { kind: "object" | "array"; fields: readonly Field[] }
  | { kind: "string" | "number" | "literal"; text: string };

export interface Field {
  /** Name with its quotes; null for an element of an array. */
  name: string | null;
  value: Json;
}

/** Limits of length and nesting above which JSON is shown as text: indentation grows with each level. */
const LENGTH_MAX = 256 * 1024;
const DEPTH_MAX = 64;

/** Null if the text is not JSON, or exceeds the limits. */
export function jsonOf(text: string | null): Json | null {
  if (text === null || text.length > LENGTH_MAX || !/^\s*[[{"]/.test(text)) return null;
  try {
    JSON.parse(text);
    return new Parser(text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? []).value(0);
  } catch {
    return null;
  }
}

/** The text is known to be JSON. */
class Parser {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  value(depth: number): Json {
    if (depth > DEPTH_MAX) throw new RangeError("it is nested too deeply");
    const token = this.#take();
    if (token === "{" || token === "[") return this.#fields(token, depth);
    if (token.startsWith('"')) return { kind: "string", text: token };
    return { kind: /^[-\d]/.test(token) ? "number" : "literal", text: token };
  }

  #fields(open: "{" | "[", depth: number): Json {
    const [kind, close] = open === "{" ? (["object", "}"] as const) : (["array", "]"] as const);
    const fields: Field[] = [];
    while (this.#tokens[this.#at] !== close) {
      const name = kind === "object" ? this.#take() : null;
      if (name !== null) this.#take(); // the colon
      fields.push({ name, value: this.value(depth + 1) });
      if (this.#tokens[this.#at] === ",") this.#take();
    }
    this.#take();
    return { kind, fields };
  }

  #take(): string {
    const token = this.#tokens[this.#at];
    if (token === undefined) throw new RangeError("it ends too early");
    this.#at += 1;
    return token;
  }
}

/** Indented text. */
export function pretty(json: Json, indent = ""): string {
  if (!("fields" in json)) return json.text;
  const [open, close] = json.kind === "object" ? "{}" : "[]";
  if (json.fields.length === 0) return `${open}${close}`;
  const lines = json.fields.map(({ name, value }) => {
    const prefix = name === null ? "" : `${name}: `;
    return `${indent}  ${prefix}${pretty(value, `${indent}  `)}`;
  });
  return `${open}\n${lines.join(",\n")}\n${indent}${close}`;
}

/** Parse JSON, with integers beyond 2^53 as bigint. A browser without the text of numbers rounds them. */
export function exactParsed(text: string): unknown {
  return JSON.parse(text, (_, value, context?: { source?: string }) => {
    const source = context?.source;
    const isRounded = typeof value === "number" && !Number.isSafeInteger(value);
    return isRounded && source !== undefined && /^-?\d+$/.test(source) ? BigInt(source) : value;
  });
}

/** JSON of a value, which may have bigint for integers beyond 2^53. */
export function jsonText(value: unknown): string {
  const { rawJSON } = JSON as { rawJSON?: (text: string) => unknown };
  return JSON.stringify(value, (_, part) =>
    typeof part === "bigint" ? (rawJSON?.(String(part)) ?? Number(part)) : part,
  );
}
