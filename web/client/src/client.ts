/** Client: one connection at a time, with automatic reconnects. */

import { encodeProduce } from "./binary.ts";
import {
  CloseCode,
  ClosedError,
  ConnectionLostError,
  HeadraceError,
  LoginError,
  TimeoutError,
} from "./errors.ts";
import { jsonProduce } from "./json.ts";
import { type Event, type Identity, Link, type SUBPROTOCOLS } from "./link.ts";
import type { Batch } from "./message.ts";
import type { Listener, ProduceOptions, SubscribeOptions } from "./requests.ts";
import { type Requester, Subscription } from "./subscription.ts";

/** `open`: logged in. `waiting`: the connection is broken, and the client reconnects. `closed`: permanently closed. */
export type State = "open" | "waiting" | "closed";

export interface ConnectOptions {
  /** Server URL: `wss://host/ws`; default: the server of the page. */
  url?: string | URL;
  /** Token of an HTTP login, or an access token. A function is called for each connection and before expiry. */
  token: string | (() => string | Promise<string>);
  /** Default: binary. */
  subprotocol?: keyof typeof SUBPROTOCOLS;
  /** First and longest pause between connection attempts. The pause doubles each time, with jitter. */
  backoff?: { minMs: number; maxMs: number };
  /** Timeout of a response, and of a request that waits for a connection. */
  timeoutMs?: number;
  /** Called when the connection is opened or closed, with the reason. */
  onState?: (state: State, reason: HeadraceError | null) => void;
  /** WebSocket implementation; default: that of the platform. */
  WebSocket?: typeof WebSocket;
}

/** Close codes that a reconnect would run into again. */
const FATAL: ReadonlySet<number> = new Set([
  CloseCode.UNSUPPORTED,
  CloseCode.INVALID_TEXT,
  CloseCode.TOO_LARGE,
  CloseCode.NOT_UNDERSTOOD,
]);
/** Status code of the binary protocol after which a login with the same token may succeed later. */
const TOO_MANY_LOGIN_ATTEMPTS = 20_000;
/** Fraction of a token's lifetime after which it is renewed. */
const SOON = 0.8;
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Connect and log in. A failure now is an error; later connection failures lead to a reconnect. */
export async function connect(options: ConnectOptions): Promise<Client> {
  const client = new Client(options);
  await client.begin();
  return client;
}

export class Client implements Requester {
  readonly #options: ConnectOptions;
  readonly #url: string;
  readonly #timeoutMs: number;
  readonly #subscriptions = new Set<Subscription>();
  /** Subscriptions whose first response is outstanding: after a reconnect their callers start them, not the client. */
  readonly #beginning = new Set<Subscription>();
  #link: Link | null = null;
  #identity: Identity | null = null;
  #end: HeadraceError | null = null;
  #attempts = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #renewal: ReturnType<typeof setTimeout> | undefined;
  #lastNumber = 0;
  #waiting: { resolve: (link: Link) => void; reject: (error: Error) => void }[] = [];

  /** Use `connect`. */
  constructor(options: ConnectOptions) {
    this.#options = options;
    this.#url = socketUrl(options.url);
    this.#timeoutMs = options.timeoutMs ?? 30_000;
  }

  /** User of the connection, and limits set by the server. */
  get identity(): Identity {
    if (this.#identity === null) throw new TypeError("the client has not logged in yet");
    return this.#identity;
  }

  get state(): State {
    if (this.#end) return "closed";
    return this.#link ? "open" : "waiting";
  }

  /** First connection. */
  async begin(): Promise<void> {
    try {
      await this.#connect();
    } catch (error) {
      this.#finish(error as HeadraceError);
      throw error;
    }
  }

  /** Subscribe. A listener is called with each message; otherwise iterate over the returned subscription. */
  async subscribe(options: SubscribeOptions, listener?: Listener): Promise<Subscription> {
    const subscription = new Subscription(this, options);
    this.#beginning.add(subscription);
    try {
      await this.repeated((link) => subscription.begin(link, this.identity.limits, this.#number));
    } catch (error) {
      subscription.fail(error as HeadraceError);
      throw error;
    } finally {
      this.#beginning.delete(subscription);
    }
    if (subscription.isRunning) this.#subscriptions.add(subscription);
    if (listener) void this.#listen(subscription, listener);
    return subscription;
  }

  /**
   * Append messages as one batch to one partition. Resolves when the server has acknowledged the batch.
   *
   * After a `ConnectionLostError` the outcome is unknown: the client does not retry by itself.
   */
  async produce({ stream, topic, partitioning = "balanced", messages }: ProduceOptions): Promise<void> {
    const link = await this.#connected();
    await (link.isBinary
      ? link.requestAs((id) => encodeProduce(id, stream, topic, partitioning, messages))
      : link.request("produce", jsonProduce(stream, topic, partitioning, messages)));
  }

  /** Measure the round-trip time in milliseconds. */
  async ping(): Promise<number> {
    const link = await this.#connected();
    const began = performance.now();
    await link.request("ping", {});
    return performance.now() - began;
  }

  /** Close the connection and all subscriptions. */
  close(): void {
    this.#finish(new ClosedError(CloseCode.NORMAL, "closed by this side"));
  }

  /** Internal, for subscriptions. */
  async repeated(send: (link: Link) => Promise<unknown>): Promise<unknown> {
    for (;;) {
      const link = await this.#connected();
      try {
        return await send(link);
      } catch (error) {
        if (!(error instanceof ConnectionLostError)) throw error;
      }
    }
  }

  /** Internal, for subscriptions. */
  ended(subscription: Subscription): void {
    this.#subscriptions.delete(subscription);
  }

  readonly #number = (): number => {
    this.#lastNumber += 1;
    return this.#lastNumber;
  };

  async #listen(subscription: Subscription, listener: Listener): Promise<void> {
    try {
      // No `for await` loop: leaving the loop would end the subscription without an error.
      for (let next = await subscription.next(); !next.done; next = await subscription.next()) {
        await listener(next.value);
      }
    } catch (error) {
      // Errors of the subscription itself need no report.
      subscription.fail(new ListenerError(error));
    }
  }

  async #connect(): Promise<void> {
    const link: Link = new Link(
      {
        url: this.#url,
        subprotocol: this.#options.subprotocol ?? "binary",
        WebSocket: this.#options.WebSocket ?? globalThis.WebSocket,
        timeoutMs: this.#timeoutMs,
      },
      {
        batch: (batch) => this.#received(batch),
        event: (event) => this.#noticed(event),
        end: (error) => this.#lost(link, error),
      },
    );
    try {
      this.#identity = await link.login(await this.#token());
      if (this.#end) throw this.#end;
      await this.#resume(link, this.#identity);
    } catch (error) {
      link.close();
      throw error;
    }
    this.#link = link;
    this.#attempts = 0;
    this.#renewInTime(link, this.#identity);
    this.#reportState(null);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { resolve } of waiting) resolve(link);
  }

  /** Existing subscriptions are resumed before new requests are sent. */
  async #resume(link: Link, identity: Identity): Promise<void> {
    await Promise.all(
      [...this.#subscriptions].map(async (subscription) => {
        try {
          await subscription.begin(link, identity.limits, this.#number);
        } catch (error) {
          if (error instanceof ConnectionLostError || error instanceof TimeoutError) throw error;
          subscription.fail(error as HeadraceError);
        }
      }),
    );
  }

  #received(batch: Batch): void {
    for (const subscription of this.#subscriptions) if (subscription.received(batch)) return;
    for (const subscription of this.#beginning) if (subscription.received(batch)) return;
  }

  #noticed(event: Event): void {
    for (const subscription of this.#subscriptions) if (subscription.noticed(event)) return;
    for (const subscription of this.#beginning) if (subscription.noticed(event)) return;
  }

  #lost(link: Link, error: ClosedError): void {
    if (this.#link !== link) return;
    this.#link = null;
    clearTimeout(this.#renewal);
    for (const subscription of this.#subscriptions) subscription.pause();
    this.#again(error);
  }

  /** Reconnect after a pause, if the error is transient. */
  #again(error: HeadraceError): void {
    if (this.#end) return;
    const isHopeless =
      (error instanceof ClosedError && FATAL.has(error.closeCode)) ||
      (isAboutLogin(error) && (typeof this.#options.token === "string" || this.#attempts > 0));
    if (isHopeless) {
      this.#finish(error);
      return;
    }
    this.#reportState(error);
    const { minMs, maxMs } = this.#options.backoff ?? { minMs: 250, maxMs: 30_000 };
    const pause = Math.min(maxMs, minMs * 2 ** this.#attempts);
    this.#attempts += 1;
    this.#retry = setTimeout(
      () => void this.#connect().catch((failure) => this.#again(failure as HeadraceError)),
      pause * (1 - Math.random() / 2),
    );
  }

  #finish(error: HeadraceError): void {
    if (this.#end) return;
    this.#end = error;
    clearTimeout(this.#retry);
    clearTimeout(this.#renewal);
    const link = this.#link;
    this.#link = null;
    for (const subscription of [...this.#subscriptions]) subscription.fail(error);
    link?.close();
    for (const { reject } of this.#waiting) reject(error);
    this.#waiting = [];
    this.#reportState(error);
  }

  async #token(): Promise<string> {
    const { token } = this.#options;
    return typeof token === "string" ? token : await token();
  }

  /** Present a newer token before that of this connection expires. */
  #renewInTime(link: Link, { expiresAt }: Identity): void {
    if (expiresAt === null || typeof this.#options.token === "string") return;
    const inMs = Math.max(1000, (expiresAt * 1000 - Date.now()) * SOON);
    this.#renewal = setTimeout(
      async () => {
        try {
          this.#identity = await link.login(await this.#token());
          if (this.#link === link) this.#renewInTime(link, this.#identity);
        } catch {
          // The server closes the connection when the token expires. Request a new token once more.
        }
      },
      Math.min(inMs, TIMER_MAX_MS),
    );
  }

  #connected(): Promise<Link> {
    if (this.#link) return Promise.resolve(this.#link);
    if (this.#end) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((waiting) => waiting.reject !== reject);
        reject(new TimeoutError(`no connection within ${this.#timeoutMs} ms`));
      }, this.#timeoutMs);
      const waiting = {
        resolve: (link: Link) => {
          clearTimeout(timer);
          resolve(link);
        },
        reject: (error: Error) => {
          clearTimeout(timer);
          reject(error);
        },
      };
      this.#waiting.push(waiting);
    });
  }

  #reportState(reason: HeadraceError | null): void {
    this.#options.onState?.(this.state, reason);
  }
}

/** A listener has thrown an exception, which ends its subscription. */
export class ListenerError extends HeadraceError {
  constructor(cause: unknown) {
    super(`the listener of a subscription has failed: ${cause}`, { cause });
  }
}

function isAboutLogin(error: HeadraceError): boolean {
  if (error instanceof LoginError) return error.code !== TOO_MANY_LOGIN_ATTEMPTS;
  return error instanceof ClosedError && error.closeCode === CloseCode.NOT_LOGGED_IN;
}

function socketUrl(url: string | URL | undefined): string {
  const base = typeof location === "undefined" ? undefined : location.href;
  const found = new URL(url ?? "/ws", base);
  if (found.protocol === "http:") found.protocol = "ws:";
  if (found.protocol === "https:") found.protocol = "wss:";
  return found.href;
}
