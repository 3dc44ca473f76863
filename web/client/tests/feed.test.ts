/** Position of a feed when messages and responses arrive together. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Feed } from "../src/feed.ts";
import type { Limits, Link } from "../src/link.ts";

const LIMITS = { creditMessages: 100, creditBytes: 100_000 } as Limits;
const NONE = { messages: 0, bytes: 0 };

/** Fake connection: messages up to `nextOffset` follow the response in the same turn of the event loop. */
function answering(feed: Feed, offset: number, nextOffset: number): { link: Link; asked: unknown[] } {
  const asked: unknown[] = [];
  const place = { streamId: 1, topicId: 2, partitionId: 0, epoch: "5" };
  const request = (_: string, body: { topics: { positions: unknown[] }[] }) => {
    for (const topic of body.topics) asked.push(...topic.positions);
    const partition = { stream_id: 1, topic_id: 2, partition_id: 0, epoch: "5", offset };
    const answer = Promise.resolve({ partitions: [partition] });
    if (nextOffset > offset) feed.received({ ...place, subscription: feed.number, nextOffset, messages: [] });
    return answer;
  };
  return { link: { request } as unknown as Link, asked };
}

test("an answer does not take a feed back behind the messages that followed it", async () => {
  const feed = new Feed({ stream: "s", topic: "t" }, { topics: [] });
  await feed.begin(answering(feed, 0, 7).link, 1, LIMITS, NONE);
  feed.pause();
  const second = answering(feed, 7, 15);
  await feed.begin(second.link, 2, LIMITS, NONE);
  assert.deepEqual(second.asked, [{ partition_id: 0, offset: 7, epoch: "5" }]);
  feed.pause();
  const third = answering(feed, 15, 15);
  await feed.begin(third.link, 3, LIMITS, NONE);
  assert.deepEqual(third.asked, [{ partition_id: 0, offset: 15, epoch: "5" }]);
});

test("an answer that begins elsewhere counts", async () => {
  const feed = new Feed({ stream: "s", topic: "t" }, { topics: [] });
  await feed.begin(answering(feed, 9, 9).link, 1, LIMITS, NONE);
  feed.pause();
  await feed.begin(answering(feed, 3, 3).link, 2, LIMITS, NONE);
  feed.pause();
  const third = answering(feed, 3, 3);
  await feed.begin(third.link, 3, LIMITS, NONE);
  assert.deepEqual(third.asked, [{ partition_id: 0, offset: 3, epoch: "5" }]);
});
