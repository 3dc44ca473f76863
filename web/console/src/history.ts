/** Samples of server statistics for the plots of the overview. */

import { useEffect, useState } from "preact/hooks";
import type { Stats } from "./api/types.ts";

export interface History {
  seconds: number[];
  messages: (number | null)[];
  bytes: (number | null)[];
  serverCpu: (number | null)[];
  machineCpu: (number | null)[];
  memory: (number | null)[];
}

interface Sample {
  at: number;
  stats: Stats;
}

const EMPTY: History = { seconds: [], messages: [], bytes: [], serverCpu: [], machineCpu: [], memory: [] };
/** Maximum distance of samples that are connected by a line. */
const GAP_SECONDS = 5;

// Kept while other pages are shown, and lost when the tab is reloaded.
let samples: readonly Sample[] = [];

export function useHistory(stats: Stats | undefined, windowSeconds: number): History {
  const [history, setHistory] = useState(EMPTY);
  useEffect(() => {
    if (stats === undefined) return;
    const at = Date.now() / 1000;
    samples = [...samples.filter((sample) => sample.at > at - windowSeconds - GAP_SECONDS), { at, stats }];
    setHistory(historyOf(samples));
  }, [stats, windowSeconds]);
  return history;
}

/** A decreasing count, after a deletion or a restart of the server, yields no rate. */
function historyOf(all: readonly Sample[]): History {
  const history: History = {
    seconds: [],
    messages: [],
    bytes: [],
    serverCpu: [],
    machineCpu: [],
    memory: [],
  };
  all.forEach((sample, index) => {
    const before = all[index - 1];
    const elapsed = before ? sample.at - before.at : Number.POSITIVE_INFINITY;
    const grown = (of: (stats: Stats) => number) =>
      before && elapsed <= GAP_SECONDS ? Math.max(0, of(sample.stats) - of(before.stats)) / elapsed : null;
    history.seconds.push(sample.at);
    history.messages.push(grown((stats) => stats.messages_count));
    history.bytes.push(grown((stats) => stats.messages_size_bytes));
    history.serverCpu.push(sample.stats.cpu_usage);
    history.machineCpu.push(sample.stats.total_cpu_usage);
    history.memory.push(sample.stats.memory_usage);
  });
  return history;
}
