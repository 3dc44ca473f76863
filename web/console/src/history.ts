/** Samples of server statistics for the plots of the overview. */

import { useEffect, useState } from "preact/hooks";
import { get } from "./api/request.ts";
import type { Stats, StatsHistory, StatsSample } from "./api/types.ts";
import { growth } from "./growth.ts";

export interface History {
  seconds: number[];
  messages: (number | null)[];
  bytes: (number | null)[];
  serverCpu: (number | null)[];
  machineCpu: (number | null)[];
  memory: (number | null)[];
}

interface Sample extends Omit<StatsSample, "timestamp"> {
  /** Seconds since the Unix epoch, by the clock of the browser. */
  at: number;
}

/** The server samples every 10 seconds; samples that are further apart are not connected by a line. */
const GAP_SECONDS = 25;
const KEPT_SECONDS = 3600 + GAP_SECONDS;
/** Samples of the page that are older than this are thinned to the interval of the server. */
const DENSE_SECONDS = 200;
const INTERVAL_SECONDS = 9.5;

// Kept while other pages are shown. A new page begins with the samples of the server.
let samples: readonly Sample[] = [];

export function useHistory(stats: Stats | undefined, windowSeconds: number): History {
  const [history, setHistory] = useState(() => historyOf(samples, windowSeconds));
  useEffect(() => {
    const abort = new AbortController();
    get<StatsHistory>("/stats/history", abort.signal)
      .then((found) => {
        samples = merged(fromServer(found), samples);
        setHistory(historyOf(samples, windowSeconds));
      })
      // Without it, the plots begin now. The statistics themselves report the error.
      .catch(() => {});
    return () => abort.abort();
  }, [windowSeconds]);
  useEffect(() => {
    if (stats === undefined) return;
    samples = thinned([...samples, { ...stats, at: Date.now() / 1000 }]);
    setHistory(historyOf(samples, windowSeconds));
  }, [stats, windowSeconds]);
  return history;
}

/** The last sample of the server is of now, which translates its clock to that of the browser. */
function fromServer({ samples: found }: StatsHistory): Sample[] {
  const ahead = (found.at(-1)?.timestamp ?? 0) / 1e6 - Date.now() / 1000;
  return found.map(({ timestamp, ...sample }) => ({ ...sample, at: timestamp / 1e6 - ahead }));
}

/** Samples of the server fill the times of which the page has none. */
function merged(theirs: readonly Sample[], ours: readonly Sample[]): readonly Sample[] {
  const missing = theirs.filter(({ at }) => !ours.some((own) => Math.abs(own.at - at) < INTERVAL_SECONDS));
  return thinned([...missing, ...ours].sort((one, other) => one.at - other.at));
}

function thinned(all: readonly Sample[]): readonly Sample[] {
  const now = all.at(-1)?.at ?? 0;
  const kept: Sample[] = [];
  for (const sample of all) {
    if (sample.at < now - KEPT_SECONDS) continue;
    const before = kept.at(-1);
    const isDense = sample.at > now - DENSE_SECONDS;
    if (isDense || before === undefined || sample.at - before.at >= INTERVAL_SECONDS) kept.push(sample);
  }
  return kept;
}

function historyOf(all: readonly Sample[], windowSeconds: number): History {
  const history: History = {
    seconds: [],
    messages: [],
    bytes: [],
    serverCpu: [],
    machineCpu: [],
    memory: [],
  };
  const begin = (all.at(-1)?.at ?? 0) - windowSeconds - GAP_SECONDS;
  const shown = all.filter(({ at }) => at >= begin);
  const messages = growth(shown, (sample) => sample.messages_count, GAP_SECONDS);
  const messageBytes = growth(shown, (sample) => sample.messages_size_bytes, GAP_SECONDS);
  shown.forEach((sample, index) => {
    const before = shown[index - 1];
    const elapsed = before ? sample.at - before.at : Number.POSITIVE_INFINITY;
    const isConnected = elapsed <= GAP_SECONDS;
    if (before && !isConnected) {
      // Without a value in between, the plot would draw a line across the time without samples.
      history.seconds.push(before.at + 1);
      const { messages, bytes, serverCpu, machineCpu, memory } = history;
      for (const row of [messages, bytes, serverCpu, machineCpu, memory]) row.push(null);
    }
    history.seconds.push(sample.at);
    history.messages.push(messages[index] ?? null);
    history.bytes.push(messageBytes[index] ?? null);
    history.serverCpu.push(sample.cpu_usage);
    history.machineCpu.push(sample.total_cpu_usage);
    history.memory.push(sample.memory_usage);
  });
  return history;
}
