/** Changing the positions of consumers. */

import { ApiError, get, request } from "./request.ts";
import type { Lag } from "./types.ts";

/** Offset of the next message to read. */
export type Target = "first" | "end" | { offset: number } | { time: Date };

/** A standalone consumer, or a consumer group. */
export interface Reader {
  isGroup: boolean;
  id: string | number;
}

/** Change the position of a consumer in some partitions of a topic. */
export async function move(
  topic: string,
  reader: Reader,
  partitions: readonly number[],
  target: Target,
): Promise<void> {
  const path = lagPath(topic, reader);
  const { partitions: known } = await get<Lag>(path);
  const change = async (store: Store) => {
    for (const partition of partitions) {
      const last = known.find(({ partition_id }) => partition_id === partition)?.last_offset ?? null;
      await store(partition, await storedFor(topic, partition, last, target));
    }
  };
  if (reader.isGroup) await asMember(topic, reader.id, change);
  else await change((partition, offset) => storeOfConsumer(topic, reader.id, partition, offset));
}

export function lagPath(topic: string, reader: Reader): string {
  return `${topic}/${reader.isGroup ? "consumer-groups" : "consumers"}/${encodeURIComponent(reader.id)}/lag`;
}

/** Store an offset; null deletes the stored one. */
type Store = (partition: number, offset: number | null) => Promise<void>;

/** The stored offset is that of the last processed message: one less than the next one to read. */
async function storedFor(
  topic: string,
  partition: number,
  last: number | null,
  target: Target,
): Promise<number | null> {
  if (target === "first" || last === null) return null;
  if (target === "end") return last;
  if ("offset" in target) return target.offset > 0 ? Math.min(target.offset - 1, last) : null;
  const query = `partition_id=${partition}&kind=timestamp&value=${target.time.getTime() * 1000}&count=1`;
  const found = await get<{ messages: { header: { offset: number } }[] }>(`${topic}/messages?${query}`);
  const next = found.messages[0]?.header.offset ?? last + 1;
  return next > 0 ? next - 1 : null;
}

async function storeOfConsumer(topic: string, id: string | number, partition: number, offset: number | null) {
  if (offset !== null) {
    await request("PUT", `${topic}/consumer-offsets`, { consumer_id: id, partition_id: partition, offset });
    return;
  }
  const path = `${topic}/consumer-offsets/${encodeURIComponent(id)}?partition_id=${partition}`;
  await request("DELETE", path).catch(unlessMissing);
}

const RETRIES_MAX = 20;
const PAUSE_MS = 150;
/** The partition is not assigned to this member (yet). */
const NOT_RESOLVED_CONSUMER = 3022;

/**
 * Only members may store offsets of a group, and only for assigned partitions: join as its only member for a moment.
 */
async function asMember(
  topic: string,
  group: string | number,
  change: (store: Store) => Promise<void>,
): Promise<void> {
  const members = `${topic}/consumer-groups/${encodeURIComponent(group)}/members`;
  const { member } = await request<{ member: string }>("POST", members);
  const path = `${members}/${encodeURIComponent(member)}`;
  try {
    await change((partition, offset) =>
      whenAssigned(async () => {
        if (offset !== null) await request("PUT", `${path}/offsets`, { partition_id: partition, offset });
        else await request("DELETE", `${path}/offsets/${partition}`).catch(unlessMissing);
      }),
    );
  } finally {
    await request("DELETE", path);
  }
}

/** Wait for the assignment of partitions. */
async function whenAssigned(attempt: () => Promise<void>): Promise<void> {
  for (let left = RETRIES_MAX; ; left -= 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof ApiError && error.code === NOT_RESOLVED_CONSUMER) || left === 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

function unlessMissing(error: unknown): void {
  if (!(error instanceof ApiError && error.status === 404)) throw error;
}
