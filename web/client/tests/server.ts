/** A running server at `HEADRACE_URL`. `tests/console/test_client.py` starts the server, then these tests. */

import { once } from "node:events";
import { type AddressInfo, createServer, connect as dial, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { type Client, type ConnectOptions, connect } from "../src/index.ts";

const URL_OF_SERVER = process.env.HEADRACE_URL ?? "http://127.0.0.1:3000";
const USER = process.env.HEADRACE_USER ?? "iggy";
const PASSWORD = process.env.HEADRACE_PASSWORD ?? USER;

let lastName = 0;

/** Return a unique name. */
export function unique(): string {
  lastName += 1;
  return `js-${process.pid}-${lastName}`;
}

let rootToken: string | null = null;

export async function token(): Promise<string> {
  rootToken ??= await loggedIn(USER, PASSWORD);
  return rootToken;
}

export async function loggedIn(username: string, password: string): Promise<string> {
  const answer = await fetch(`${URL_OF_SERVER}/users/login`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ username, password }),
  });
  return ((await answer.json()) as { access_token: { token: string } }).access_token.token;
}

/** Send an HTTP request that must succeed. */
export async function api<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await fetch(URL_OF_SERVER + path, {
    method,
    headers: { Authorization: `Bearer ${await token()}`, "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return (text ? JSON.parse(text) : undefined) as Answer;
}

/** Create a stream with a topic `t`, and return the name of the stream. */
export async function topic(partitions = 1): Promise<string> {
  const stream = unique();
  await api("POST", "/streams", { name: stream });
  await api("POST", `/streams/${stream}/topics`, { name: "t", partitions_count: partitions });
  return stream;
}

/** Connect a client that is closed at the end of the test. */
export async function client(test: TestContext, options: Partial<ConnectOptions> = {}): Promise<Client> {
  const connected = await connect({
    url: `${URL_OF_SERVER}/ws`,
    token: await token(),
    backoff: { minMs: 10, maxMs: 200 },
    ...options,
  });
  test.after(() => connected.close());
  return connected;
}

/** TCP proxy that can break connections. */
export interface Breaker {
  url: string;
  /** Break all connections. */
  cut: () => void;
  connections: () => number;
}

export async function breaker(test: TestContext): Promise<Breaker> {
  const { hostname, port } = new URL(URL_OF_SERVER);
  const open = new Set<Socket>();
  let count = 0;
  const server = createServer((near) => {
    count += 1;
    const far = dial(Number(port), hostname);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        open.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  test.after(() => {
    server.close();
    cut();
  });
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/ws`,
    cut,
    connections: () => count,
  };
}

/** Wait until a condition is true. */
export async function until(isTrue: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + 20_000;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error(`it did not come to this: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
