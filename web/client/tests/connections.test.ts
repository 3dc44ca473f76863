/** Broken connections, and expired or revoked logins (GW-5). */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CloseCode,
  ClosedError,
  connect,
  type HeadraceError,
  LoginError,
  RefusedError,
  type State,
  TimeoutError,
  textOf,
} from "../src/index.ts";
import { api, breaker, client, loggedIn, token, topic, unique, until } from "./server.ts";

const COUNT = 400;

for (const subprotocol of ["binary", "json"] as const) {
  test(`no gap and nothing twice over many breaks, ${subprotocol}`, async (t) => {
    const stream = await topic(2);
    const between = await breaker(t);
    const states: State[] = [];
    const reader = await client(t, {
      url: between.url,
      subprotocol,
      onState: (state) => states.push(state),
    });
    const writer = await client(t);
    const seen: [string[], string[]] = [[], []];
    const subscription = await reader.subscribe(
      { topics: [{ stream, topic: "t" }], credit: { messages: 20, bytes: 100_000 } },
      (message) => {
        seen[message.partitionId as 0 | 1].push(textOf(message));
      },
    );
    for (let number = 0; number < COUNT; number += 1) {
      const partitioning = { partition: number % 2 };
      await writer.produce({ stream, topic: "t", partitioning, messages: [{ payload: String(number) }] });
      if (number % 40 === 20) between.cut();
    }
    await until(() => seen[0].length + seen[1].length >= COUNT, `${COUNT} messages`);
    await subscription.close();
    for (const partition of [0, 1] as const) {
      const expected = Array.from({ length: COUNT / 2 }, (_, index) => String(index * 2 + partition));
      assert.deepEqual(seen[partition], expected);
    }
    assert.ok(between.connections() > 3, `${between.connections()} connections`);
    assert.ok(states.includes("waiting"));
  });
}

test("a partition that was added while no client was connected is read from its first message", async (t) => {
  const stream = await topic();
  const between = await breaker(t);
  const reader = await client(t, { url: between.url, backoff: { minMs: 800, maxMs: 800 } });
  const writer = await client(t);
  const subscription = await reader.subscribe({ topics: [{ stream, topic: "t" }] });
  between.cut();
  await until(() => reader.state === "waiting", "a broken connection");
  await api("POST", `/streams/${stream}/topics/t/partitions`, { partitions_count: 1 });
  await writer.produce({
    stream,
    topic: "t",
    partitioning: { partition: 1 },
    messages: [{ payload: "new" }],
  });
  const { value } = await subscription.next();
  assert.deepEqual([value.partitionId, value.offset, textOf(value)], [1, 0, "new"]);
});

test("offsets are acknowledged after a break as well", async (t) => {
  const stream = await topic();
  const between = await breaker(t);
  const it = await client(t, { url: between.url });
  await it.produce({ stream, topic: "t", messages: [{ payload: "0" }, { payload: "1" }] });
  const subscription = await it.subscribe({ topics: [{ stream, topic: "t", start: "first" }], consumer: 3 });
  const { value } = await subscription.next();
  between.cut();
  await subscription.ack(value);
  const path = `/streams/${stream}/topics/t/consumer-offsets?consumer_id=3&partition_id=0`;
  assert.equal((await api<{ stored_offset: number }>("GET", path)).stored_offset, 0);
});

test("a subscription whose topic went away meanwhile has failed", async (t) => {
  const stream = await topic();
  const between = await breaker(t);
  const it = await client(t, { url: between.url, backoff: { minMs: 800, maxMs: 800 } });
  const subscription = await it.subscribe({ topics: [{ stream, topic: "t" }] });
  between.cut();
  await api("DELETE", `/streams/${stream}`);
  await assert.rejects(subscription.next(), RefusedError);
  assert.equal(it.state === "closed", false);
});

test("a wrong token is an error at once", async () => {
  await assert.rejects(client({ after: () => {} } as never, { token: "wrong" }), LoginError);
});

test("a server that is not there is an error at once", async () => {
  await assert.rejects(connect({ url: "ws://127.0.0.1:1/ws", token: "t" }), ClosedError);
});

test("a token that is revoked ends the connection for good", async (t) => {
  const name = unique();
  await api("POST", "/users", { username: name, password: name, status: "active", permissions: null });
  const states: [State, HeadraceError | null][] = [];
  const it = await client(t, {
    token: await loggedIn(name, name),
    onState: (state, reason) => states.push([state, reason]),
  });
  assert.equal(it.identity.username, name);
  await api("PUT", `/users/${name}`, { status: "inactive" });
  await until(() => it.state === "closed", "a closed connection");
  const [, reason] = states.at(-1) ?? [];
  assert.ok(reason instanceof ClosedError && reason.closeCode === CloseCode.NOT_LOGGED_IN, String(reason));
  await assert.rejects(it.ping(), ClosedError);
});

test("a function is asked for another token when one has ended", async (t) => {
  const name = unique();
  await api("POST", "/users", { username: name, password: name, status: "active", permissions: null });
  let asked = 0;
  const tokens: string[] = [];
  const it = await client(t, {
    token: async () => {
      asked += 1;
      tokens.push(await loggedIn(name, name));
      return tokens.at(-1) ?? "";
    },
  });
  // Revokes the token that the connection has used.
  const url = process.env.HEADRACE_URL ?? "http://127.0.0.1:3000";
  await fetch(`${url}/users/logout`, { method: "DELETE", headers: { Authorization: `Bearer ${tokens[0]}` } });
  await until(() => asked === 2 && it.state === "open", "another token");
  assert.ok((await it.ping()) >= 0);
});

test("requests wait for a connection, but not for ever", async (t) => {
  const between = await breaker(t);
  // The timeout holds for the login as well, and the next attempt is long after it.
  const backoff = { minMs: 60_000, maxMs: 60_000 };
  const it = await client(t, { url: between.url, backoff, timeoutMs: 8000 });
  between.cut();
  await until(() => it.state === "waiting", "a broken connection");
  await assert.rejects(it.ping(), TimeoutError);
  it.close();
  assert.equal(it.state, "closed");
  assert.ok(await token());
});
