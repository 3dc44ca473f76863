/** One connection: login, requests, and dispatch of received messages. */

import { decodeBatch } from "./binary.ts";
import {
  CloseCode,
  ClosedError,
  ConnectionLostError,
  LoginError,
  RefusedError,
  TimeoutError,
} from "./errors.ts";
import { decodeJsonBatch, type JsonBatch } from "./json.ts";
import type { Batch } from "./message.ts";

export const SUBPROTOCOLS = { binary: "headrace.v1.binary", json: "headrace.v1.json" } as const;

/** Limits that the server sets for a connection. */
export interface Limits {
  subscriptions: number;
  partitions: number;
  creditMessages: number;
  creditBytes: number;
  messageBytes: number;
}

/** Authenticated user. */
export interface Identity {
  userId: number;
  username: string;
  /** Unix seconds; null if the token never expires. */
  expiresAt: number | null;
  limits: Limits;
}

/** A server message that is neither a response nor contains messages. */
export interface Event {
  type: string;
  subscription: number;
  [field: string]: unknown;
}

export interface LinkHandlers {
  batch: (batch: Batch) => void;
  event: (event: Event) => void;
  /** Callback for the end of the connection. */
  end: (error: ClosedError) => void;
}

interface Pending {
  resolve: (answer: Record<string, unknown>) => void;
  reject: (error: Error) => void;
  timer: ReturnType<typeof setTimeout>;
}

interface Answer {
  type: string;
  id: number;
  code: number;
  reason: string;
  field: string | null;
}

interface LoginAnswer {
  user_id: number;
  username: string;
  expires_at: number | null;
  heartbeat_ms: number;
  limits: {
    subscriptions: number;
    partitions: number;
    credit_messages: number;
    credit_bytes: number;
    message_bytes: number;
  };
}

export interface LinkOptions {
  url: string;
  subprotocol: keyof typeof SUBPROTOCOLS;
  WebSocket: typeof WebSocket;
  /** Timeout of a response. */
  timeoutMs: number;
}

export class Link {
  readonly isBinary: boolean;
  readonly #socket: WebSocket;
  readonly #handlers: LinkHandlers;
  readonly #timeoutMs: number;
  readonly #pending = new Map<number, Pending>();
  #opened!: { resolve: () => void; reject: (error: Error) => void };
  readonly #isOpen: Promise<void>;
  #lastId = 0;
  #heardAt = Date.now();
  #watch: ReturnType<typeof setInterval> | undefined;
  #end: ClosedError | null = null;

  constructor(options: LinkOptions, handlers: LinkHandlers) {
    this.#handlers = handlers;
    this.#timeoutMs = options.timeoutMs;
    this.isBinary = options.subprotocol === "binary";
    this.#isOpen = new Promise((resolve, reject) => {
      this.#opened = { resolve, reject };
    });
    // A caller that awaits the promise gets the error; without one the rejection is not unhandled.
    this.#isOpen.catch(() => {});
    this.#socket = new options.WebSocket(options.url, [SUBPROTOCOLS[options.subprotocol]]);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onopen = () => this.#opened.resolve();
    this.#socket.onmessage = ({ data }) => this.#received(data);
    this.#socket.onclose = ({ code, reason }) => this.#over(code, reason);
  }

  /** Wait for the connection and log in. */
  async login(token: string): Promise<Identity> {
    const timer = setTimeout(
      () => this.#give(CloseCode.ABNORMAL, "no connection came about in time"),
      this.#timeoutMs,
    );
    try {
      await this.#isOpen;
    } finally {
      clearTimeout(timer);
    }
    let answer: LoginAnswer;
    try {
      answer = (await this.request("login", { token })) as unknown as LoginAnswer;
    } catch (error) {
      throw error instanceof RefusedError ? new LoginError(error.code, error.message, error.field) : error;
    }
    this.#watchOver(answer.heartbeat_ms);
    const { limits } = answer;
    return {
      userId: answer.user_id,
      username: answer.username,
      expiresAt: answer.expires_at,
      limits: {
        subscriptions: limits.subscriptions,
        partitions: limits.partitions,
        creditMessages: limits.credit_messages,
        creditBytes: limits.credit_bytes,
        messageBytes: limits.message_bytes,
      },
    };
  }

  /** Send a request and return its response. */
  request(type: string, fields: Record<string, unknown>): Promise<Record<string, unknown>> {
    return this.requestAs((id) => JSON.stringify({ type, id, ...fields }));
  }

  /** Send a request whose encoding contains its id. */
  requestAs(form: (id: number) => string | Uint8Array<ArrayBuffer>): Promise<Record<string, unknown>> {
    if (this.#end) return Promise.reject(this.#lost());
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#pending.delete(id);
        reject(new TimeoutError(`no answer came within ${this.#timeoutMs} ms`));
      }, this.#timeoutMs);
      this.#pending.set(id, { resolve, reject, timer });
      this.#socket.send(form(id));
    });
  }

  /** Send a request without a response. */
  send(type: string, fields: Record<string, unknown>): void {
    if (!this.#end) this.#socket.send(JSON.stringify({ type, ...fields }));
  }

  close(): void {
    this.#give(CloseCode.NORMAL, "closed by this side");
  }

  #received(data: string | ArrayBuffer): void {
    if (this.#end) return;
    this.#heardAt = Date.now();
    let found: Batch | (Answer & Event);
    try {
      found = understood(data);
    } catch (error) {
      this.#give(CloseCode.NOT_UNDERSTOOD, `the server sent what is not understood: ${error}`);
      return;
    }
    if (!("type" in found)) this.#handlers.batch(found);
    else if (found.type === "ok" || found.type === "error") this.#answered(found);
    else this.#handlers.event(found);
  }

  #answered(answer: Answer): void {
    const pending = this.#pending.get(answer.id);
    if (!pending) return;
    this.#pending.delete(answer.id);
    clearTimeout(pending.timer);
    if (answer.type === "ok") pending.resolve(answer as unknown as Record<string, unknown>);
    else pending.reject(new RefusedError(answer.code, answer.reason, answer.field));
  }

  /** Close a connection that receives nothing, not even heartbeats. */
  #watchOver(heartbeatMs: number): void {
    clearInterval(this.#watch);
    this.#watch = setInterval(() => {
      if (Date.now() - this.#heardAt > 2.5 * heartbeatMs) {
        this.#give(CloseCode.ABNORMAL, "the server has fallen silent");
      }
    }, heartbeatMs / 2);
  }

  /** Close the connection without waiting for the server, which may be unreachable. */
  #give(code: number, reason: string): void {
    this.#over(code, reason);
    this.#socket.close();
  }

  #over(code: number, reason: string): void {
    if (this.#end) return;
    this.#end = new ClosedError(code, reason);
    clearInterval(this.#watch);
    this.#opened.reject(this.#lost());
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(this.#lost());
    }
    this.#pending.clear();
    this.#handlers.end(this.#end);
  }

  #lost(): ConnectionLostError {
    const { closeCode, message } = this.#end ?? { closeCode: CloseCode.ABNORMAL, message: "" };
    return new ConnectionLostError(closeCode, message);
  }
}

function understood(data: string | ArrayBuffer): Batch | (Answer & Event) {
  if (typeof data !== "string") return decodeBatch(data);
  const message = JSON.parse(data) as Answer & Event;
  return message.type === "messages" ? decodeJsonBatch(message as unknown as JsonBatch) : message;
}
