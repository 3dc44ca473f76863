/** Parts that the list and the page of a connector share. */

import type { ConnectorLag } from "../../api/connectors.ts";
import { bytes, count, plural, time } from "../../format.ts";

export const CHANGES_ARE_OFF =
  "Changes are off: http.configuration.enabled of the pipeline file allows them.";

const COLOURS: Record<string, string> = { running: "good", degraded: "warn", error: "bad" };

export function StateBadge({ state }: { state: string }) {
  return <span class={`badge ${COLOURS[state] ?? ""}`}>{state}</span>;
}

export function lagText(lag: ConnectorLag | null): string {
  if (lag === null) return "–";
  return lag.unit === "bytes" ? bytes(lag.behind) : plural(lag.behind, lag.unit.replace(/s$/, ""), lag.unit);
}

/** Value to sort by. Units differ, and so do their sizes: the order is that of the numbers. */
export function lagValue(lag: ConnectorLag | null): number | null {
  return lag === null ? null : lag.behind;
}

/** A time of the API, in the zone of the browser, to the second. */
export function when(text: string | null): string {
  return text === null ? "–" : time(Date.parse(text) * 1000).slice(0, 19);
}

export function known(value: number | null): string {
  return value === null ? "–" : count(value);
}
