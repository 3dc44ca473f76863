/** Rates of counts between two polls. */

import { useEffect, useRef, useState } from "preact/hooks";

const APART_MS_MIN = 1000;

interface Counted {
  id: number;
  messages_count: number;
}

/** Appended messages per second by id. Empty before the second poll; a purge counts as no messages. */
export function useRates(rows: readonly Counted[] | undefined): ReadonlyMap<number, number> {
  const before = useRef<{ at: number; counts: ReadonlyMap<number, number> } | null>(null);
  const [rates, setRates] = useState<ReadonlyMap<number, number>>(new Map());
  useEffect(() => {
    if (rows === undefined) return;
    const at = performance.now();
    // Between polls that are closer, a rate is mostly noise.
    if (before.current !== null && at - before.current.at < APART_MS_MIN) return;
    const counts = new Map(rows.map(({ id, messages_count }) => [id, messages_count]));
    const last = before.current;
    before.current = { at, counts };
    if (last === null) return;
    const seconds = (at - last.at) / 1000;
    const grown = [...counts].flatMap(([id, count]) => {
      const earlier = last.counts.get(id);
      return earlier === undefined ? [] : [[id, Math.max(0, count - earlier) / seconds] as const];
    });
    setRates(new Map(grown));
  }, [rows]);
  return rates;
}
