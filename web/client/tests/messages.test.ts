/** Messages to and from a server (GW-5). */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  jsonOf,
  ListenerError,
  type Message,
  type Notice,
  RefusedError,
  type Subscription,
  textOf,
} from "../src/index.ts";
import { api, client, topic, until } from "./server.ts";

const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index);
const numbered = (from: number, to: number) =>
  numbers(from, to).map((payload) => ({ payload: String(payload) }));

async function take(subscription: Subscription, count: number): Promise<Message[]> {
  const found: Message[] = [];
  while (found.length < count) {
    const { value } = await subscription.next();
    found.push(value as Message);
  }
  return found;
}

for (const subprotocol of ["binary", "json"] as const) {
  test(`messages with ids and headers, ${subprotocol}`, async (t) => {
    const stream = await topic();
    const it = await client(t, { subprotocol });
    const subscription = await it.subscribe({ topics: [{ stream, topic: "t" }] });
    const id = 2n ** 100n + 1n;
    await it.produce({
      stream,
      topic: "t",
      messages: [
        { payload: JSON.stringify({ order: 1 }), id, headers: { kind: "paid", amount: 12.5, flag: true } },
        { payload: Uint8Array.of(0, 1, 255) },
      ],
    });
    const [first, second] = (await take(subscription, 2)) as [Message, Message];
    assert.deepEqual(jsonOf(first), { order: 1 });
    assert.equal(first.id, id);
    assert.equal(first.offset, 0);
    assert.ok(Math.abs(first.timestamp / 1000 - Date.now()) < 60_000);
    assert.deepEqual(
      first.headers?.map(({ key, kind, value }) => [key, kind, value]),
      [
        ["kind", "string", "paid"],
        ["amount", "float64", 12.5],
        ["flag", "bool", true],
      ],
    );
    assert.deepEqual([...second.payload], [0, 1, 255]);
    assert.deepEqual(second.headers, []);
  });

  test(`little credit and a slow reader: everything once and in order, ${subprotocol}`, async (t) => {
    const stream = await topic();
    const it = await client(t, { subprotocol });
    await it.produce({ stream, topic: "t", messages: numbered(0, 300) });
    const seen: string[] = [];
    await it.subscribe(
      { topics: [{ stream, topic: "t", start: "first" }], credit: { messages: 7, bytes: 500 } },
      async (message) => {
        seen.push(textOf(message));
        if (seen.length % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      },
    );
    await until(() => seen.length >= 300, "300 messages");
    assert.deepEqual(seen, numbers(0, 300).map(String));
  });
}

test("every place to start at", async (t) => {
  const stream = await topic();
  const it = await client(t);
  await it.produce({ stream, topic: "t", messages: numbered(0, 3) });
  await new Promise((resolve) => setTimeout(resolve, 5));
  const between = new Date();
  await new Promise((resolve) => setTimeout(resolve, 5));
  await it.produce({ stream, topic: "t", messages: numbered(3, 5) });
  for (const [start, expected] of [
    ["first", "0"],
    [{ offset: 2 }, "2"],
    [{ timestamp: between }, "3"],
    ["next", "0"],
  ] as const) {
    const subscription = await it.subscribe({ topics: [{ stream, topic: "t", start }], consumer: "places" });
    const [message] = (await take(subscription, 1)) as [Message];
    assert.equal(textOf(message), expected);
    await subscription.close();
  }
});

test("what was acknowledged is not read again", async (t) => {
  const stream = await topic();
  const it = await client(t);
  await it.produce({ stream, topic: "t", messages: numbered(0, 3) });
  const options = { topics: [{ stream, topic: "t", start: "next" }], consumer: 7 } as const;
  const first = await it.subscribe(options);
  const [, second] = (await take(first, 2)) as [Message, Message];
  await first.ack(second);
  await first.close();
  const again = await it.subscribe(options);
  const [message] = (await take(again, 1)) as [Message];
  assert.equal(message.offset, 2);
  const anonymous = await it.subscribe({ topics: [{ stream, topic: "t" }] });
  await assert.rejects(anonymous.ack(message), TypeError);
});

test("only what the filter lets through", async (t) => {
  const stream = await topic();
  const it = await client(t);
  const subscription = await it.subscribe({
    topics: [{ stream, topic: "t" }],
    filter: { headers: [{ name: "kind", prefix: "pa" }] },
  });
  for (const kind of ["open", "paid", "sent", "parked"]) {
    await it.produce({ stream, topic: "t", messages: [{ payload: kind, headers: { kind } }] });
  }
  assert.deepEqual((await take(subscription, 2)).map(textOf), ["paid", "parked"]);
});

test("several topics in one subscription, and where messages are sent", async (t) => {
  const streams = [await topic(3), await topic(3)];
  const it = await client(t);
  const subscription = await it.subscribe({ topics: streams.map((stream) => ({ stream, topic: "t" })) });
  for (const stream of streams) {
    await it.produce({ stream, topic: "t", partitioning: { partition: 2 }, messages: numbered(0, 2) });
    await it.produce({ stream, topic: "t", partitioning: { key: "k" }, messages: numbered(2, 4) });
  }
  const found = await take(subscription, 8);
  assert.equal(new Set(found.map(({ streamId }) => streamId)).size, 2);
  assert.equal(found.filter(({ partitionId }) => partitionId === 2).length >= 4, true);
});

test("leaving the loop ends the subscription", async (t) => {
  const stream = await topic();
  const it = await client(t);
  await it.produce({ stream, topic: "t", messages: numbered(0, 10) });
  const subscription = await it.subscribe({ topics: [{ stream, topic: "t", start: "first" }] });
  for await (const message of subscription) if (message.offset === 3) break;
  await subscription.done;
  assert.deepEqual(await subscription.next(), { value: undefined, done: true });
});

test("a listener that throws ends its subscription and no other", async (t) => {
  const stream = await topic();
  const it = await client(t);
  const other = await it.subscribe({ topics: [{ stream, topic: "t" }] });
  const failing = await it.subscribe({ topics: [{ stream, topic: "t" }] }, () => {
    throw new Error("not today");
  });
  await it.produce({ stream, topic: "t", messages: numbered(0, 2) });
  await assert.rejects(
    failing.done,
    (error) => error instanceof ListenerError && /not today/.test(error.message),
  );
  assert.deepEqual((await take(other, 2)).map(textOf), ["0", "1"]);
});

test("partitions that are added are followed, a purge is reported, an end is an error", async (t) => {
  const stream = await topic();
  const it = await client(t);
  const notices: Notice[] = [];
  const subscription = await it.subscribe({
    topics: [{ stream, topic: "t" }],
    onNotice: (notice) => notices.push(notice),
  });
  await api("POST", `/streams/${stream}/topics/t/partitions`, { partitions_count: 1 });
  await until(() => notices.length > 0, "the partition is known where the connection is");
  await it.produce({ stream, topic: "t", partitioning: { partition: 1 }, messages: numbered(0, 1) });
  const [added] = (await take(subscription, 1)) as [Message];
  assert.deepEqual([added.partitionId, added.offset], [1, 0]);
  assert.deepEqual(
    notices.map(({ type }) => type),
    ["added"],
  );
  await api("DELETE", `/streams/${stream}/topics/t/purge`);
  // Behind a balancer the connection may be at another gateway: what is sent before is a part of what is purged.
  const isReset = ({ type, partitionId }: Notice) => type === "reset" && partitionId === 1;
  await until(() => notices.some(isReset), "the purge is known where the connection is");
  await it.produce({ stream, topic: "t", partitioning: { partition: 1 }, messages: numbered(5, 6) });
  const [after] = (await take(subscription, 1)) as [Message];
  assert.deepEqual([after.offset, textOf(after)], [0, "5"]);
  await api("DELETE", `/streams/${stream}`);
  await assert.rejects(subscription.next(), RefusedError);
  await assert.rejects(subscription.done, RefusedError);
});

test("a refusal carries its code", async (t) => {
  const it = await client(t);
  const subscribing = it.subscribe({ topics: [{ stream: "nowhere", topic: "t" }] });
  await assert.rejects(subscribing, (error) => error instanceof RefusedError && error.code === 1009);
  const producing = it.produce({ stream: "nowhere", topic: "t", messages: [{ payload: "x" }] });
  await assert.rejects(producing, (error) => error instanceof RefusedError && error.code === 1009);
  assert.ok((await it.ping()) >= 0);
});
