/** Formatting of numbers, sizes and times. */

import { UNLIMITED } from "./topic_limits.ts";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function count(value: number): string {
  return whole.format(value);
}

export function rate(value: number): string {
  if (value > 0 && value < 10) return value.toFixed(1);
  return value < 10_000 ? whole.format(value) : short.format(value);
}

/** Rate of a table; a dash before it is known. */
export function perSecond(value: number | undefined): string {
  return value === undefined ? "–" : `${rate(value)}/s`;
}

export function bytes(value: number): string {
  let unit = 0;
  let scaled = value;
  while (scaled >= 1024 && unit < UNITS.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || scaled >= 100 ? 0 : 1;
  return `${scaled.toFixed(digits)} ${UNITS[unit]}`;
}

/** Value returned for a topic setting whose last update selected the server default. */
const SERVER_DEFAULT = "server default";

export function sizeLimit(value: number): string {
  if (value === 0) return SERVER_DEFAULT;
  return value >= UNLIMITED ? "no limit" : bytes(value);
}

export function expiry(micros: number): string {
  if (micros === 0) return SERVER_DEFAULT;
  return micros >= UNLIMITED ? "never" : duration(micros / 1e6);
}

/** The two largest units, as in `3 h 12 m`. */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)}\u00a0ms`;
  const parts: string[] = [];
  let rest = Math.floor(seconds);
  for (const [unit, length] of [
    ["d", 86_400],
    ["h", 3600],
    ["m", 60],
    ["s", 1],
  ] as const) {
    const amount = Math.floor(rest / length);
    rest -= amount * length;
    if (amount > 0) parts.push(`${amount}\u00a0${unit}`);
    if (parts.length === 2) break;
  }
  // A duration is not broken into lines.
  return parts.join("\u00a0");
}

export function time(micros: number): string {
  const at = new Date(micros / 1000);
  const pad = (value: number, length = 2) => String(value).padStart(length, "0");
  const date = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${date} ${clock(micros)}`;
}

/** Time of day, with milliseconds. */
export function clock(micros: number): string {
  const at = new Date(micros / 1000);
  const pad = (value: number, length = 2) => String(value).padStart(length, "0");
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
}

export function plural(amount: number, one: string, many = `${one}s`): string {
  return `${count(amount)} ${amount === 1 ? one : many}`;
}
