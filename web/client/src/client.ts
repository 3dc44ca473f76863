/** The client: one connection at a time, and the next one when it breaks. */

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

/** `open`: logged in. `waiting`: the connection broke, another one is tried. `closed`: for good. */
export type State = "open" | "waiting" | "closed";

export interface ConnectOptions {
  /** Where: `wss://host/ws`, or the page's own server if left out. */
  url?: string | URL;
  /** From a login over HTTP, or an access token. A function is asked again for each connection and before expiry. */
  token: string | (() => string | Promise<string>);
  /** Binary if left out. */
  subprotocol?: keyof typeof SUBPROTOCOLS;
  /** Pauses between attempts to connect: the first, and the longest. Each is twice the last one, less some chance. */
  backoff?: { minMs: number; maxMs: number };
  /** For how long an answer may take, and a request may wait for a connection. */
  timeoutMs?: number;
  /** Told when the connection comes and goes, with the reason. */
  onState?: (state: State, reason: HeadraceError | null) => void;
  /** Another implementation than the platform's. */
  WebSocket?: typeof WebSocket;
}

/** The server does not take what this client sends: another connection would end in the same way. */
const FATAL: ReadonlySet<number> = new Set([
  CloseCode.UNSUPPORTED,
  CloseCode.INVALID_TEXT,
  CloseCode.TOO_LARGE,
  CloseCode.NOT_UNDERSTOOD,
]);
/** Of the binary protocol: the same token may do later. */
const TOO_MANY_LOGIN_ATTEMPTS = 20_000;
/** Which part of a token's time has passed when it is renewed. */
const SOON = 0.8;
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Connects and logs in. Later breaks are mended; a failure now is an error. */
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
  /** Not answered yet: another connection does not begin them, whoever asked for them does. */
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

  /** Who is logged in, and what the server lets it have. */
  get identity(): Identity {
    if (this.#identity === null) throw new TypeError("nobody has logged in yet");
    return this.#identity;
  }

  get state(): State {
    if (this.#end) return "closed";
    return this.#link ? "open" : "waiting";
  }

  /** The first connection. */
  async begin(): Promise<void> {
    try {
      await this.#connect();
    } catch (error) {
      this.#finish(error as HeadraceError);
      throw error;
    }
  }

  /** Subscribes. With a listener it is called with each message; otherwise iterate over what is returned. */
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
   * Appends messages, as one batch, to one partition. Done when the server has acknowledged them.
   *
   * A `ConnectionLostError` leaves open whether they were appended: it is not done twice unasked.
   */
  async produce({ stream, topic, partitioning = "balanced", messages }: ProduceOptions): Promise<void> {
    const link = await this.#connected();
    await (link.isBinary
      ? link.requestAs((id) => encodeProduce(id, stream, topic, partitioning, messages))
      : link.request("produce", jsonProduce(stream, topic, partitioning, messages)));
  }

  /** The time that an answer takes, in milliseconds. */
  async ping(): Promise<number> {
    const link = await this.#connected();
    const began = performance.now();
    await link.request("ping", {});
    return performance.now() - began;
  }

  /** Ends the connection and all subscriptions. */
  close(): void {
    this.#finish(new ClosedError(CloseCode.NORMAL, "closed by this side"));
  }

  /** Of subscriptions. */
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

  /** Of subscriptions. */
  ended(subscription: Subscription): void {
    this.#subscriptions.delete(subscription);
  }

  readonly #number = (): number => {
    this.#lastNumber += 1;
    return this.#lastNumber;
  };

  async #listen(subscription: Subscription, listener: Listener): Promise<void> {
    try {
      // Not a loop over it: leaving that would end the subscription as if all were well.
      for (let next = await subscription.next(); !next.done; next = await subscription.next()) {
        await listener(next.value);
      }
    } catch (error) {
      // Its own end is no news to it.
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
    this.#told(null);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { resolve } of waiting) resolve(link);
  }

  /** Subscriptions that are there already go on before anything new is asked for. */
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

  /** Tries once more after a pause, if there is any hope. */
  #again(error: HeadraceError): void {
    if (this.#end) return;
    const isHopeless =
      (error instanceof ClosedError && FATAL.has(error.closeCode)) ||
      (isAboutLogin(error) && (typeof this.#options.token === "string" || this.#attempts > 0));
    if (isHopeless) {
      this.#finish(error);
      return;
    }
    this.#told(error);
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
    this.#told(error);
  }

  async #token(): Promise<string> {
    const { token } = this.#options;
    return typeof token === "string" ? token : await token();
  }

  /** Shows a newer token before the one of this connection ends. */
  #renewInTime(link: Link, { expiresAt }: Identity): void {
    if (expiresAt === null || typeof this.#options.token === "string") return;
    const inMs = Math.max(1000, (expiresAt * 1000 - Date.now()) * SOON);
    this.#renewal = setTimeout(
      async () => {
        try {
          this.#identity = await link.login(await this.#token());
          if (this.#link === link) this.#renewInTime(link, this.#identity);
        } catch {
          // The server closes when the token ends; then it is asked for once more.
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

  #told(reason: HeadraceError | null): void {
    this.#options.onState?.(this.state, reason);
  }
}

/** A listener has thrown: its subscription is over. */
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
