/** Expiry and maximum size of topics, as forms show and send them. */

/** The 64-bit value for "no limit", after rounding by JSON. */
export const UNLIMITED = 1.8e19;

const HOUR = 3600e6;
const DAY = 24 * HOUR;

/** Expiries in microseconds; `0` is the server's default. */
export const EXPIRIES = [
  ["0", "server default"],
  [String(HOUR), "1 hour"],
  [String(DAY), "1 day"],
  [String(7 * DAY), "7 days"],
  [String(30 * DAY), "30 days"],
  [String(365 * DAY), "365 days"],
  ["never", "never"],
] as const;

export const SIZES = [
  ["0", "server default"],
  ["1 GiB", "1 GiB"],
  ["10 GiB", "10 GiB"],
  ["100 GiB", "100 GiB"],
  ["1 TiB", "1 TiB"],
  ["unlimited", "no limit"],
] as const;

/** Units of other expiries, in microseconds. */
export const EXPIRY_UNITS = [
  ["1", "microseconds"],
  ["1000000", "seconds"],
  ["60000000", "minutes"],
  [String(HOUR), "hours"],
  [String(DAY), "days"],
] as const;

export const OTHER = "other";

const SIZE_UNITS = [
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
] as const;

/** An expiry in the form of the request. */
export function expiryValue(text: string): number | "never" {
  return text === "never" ? text : Number(text);
}

/** A maximum size in the form of the request. */
export function sizeValue(text: string): number | bigint | string {
  if (!/^[0-9]+$/.test(text)) return text;
  const bytes = Number(text);
  return Number.isSafeInteger(bytes) ? bytes : BigInt(text);
}

/** Maximum number before the unit of a size in a request, plus one. */
const UNITS_LIMIT = 1e6;

/** The same size as text, exact. */
export function sizeText(bytes: number): string {
  if (bytes >= UNLIMITED) return "unlimited";
  const unit = SIZE_UNITS.find(
    ([, factor]) => bytes > 0 && bytes % factor === 0 && bytes / factor < UNITS_LIMIT,
  );
  return unit ? `${bytes / unit[1]} ${unit[0]}` : String(bytes);
}

/** The largest unit in which an expiry is a whole number, and that number. */
export function expiryParts(micros: number): { amount: string; unit: string } {
  const [unit] =
    [...EXPIRY_UNITS].reverse().find(([factor]) => micros % Number(factor) === 0) ?? EXPIRY_UNITS[0];
  return { amount: String(micros / Number(unit)), unit };
}
