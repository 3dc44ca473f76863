/** Changes of a form and changes that others made since it was opened. */

export const CONFLICT =
  "Someone else has changed the same fields meanwhile. The form shows the present values now: " +
  "look at them, and save again.";

/**
 * The present value with the changes that were made to the value that a form began from.
 *
 * Null if both sides have changed the same field to different values.
 */
export function merged<Value>(from: Value, edited: Value, present: Value): Value | null {
  const result = mergedPart(from, edited, present);
  return result === CLASH ? null : (result as Value);
}

const CLASH = Symbol();

function mergedPart(from: unknown, edited: unknown, present: unknown): unknown {
  if (isSame(edited, from)) return present;
  if (!isObject(edited) || !isObject(present)) {
    return isSame(present, from) || isSame(present, edited) ? edited : CLASH;
  }
  const began = isObject(from) ? from : {};
  const result: Record<string, unknown> = {};
  for (const name of new Set([...Object.keys(present), ...Object.keys(edited)])) {
    const part = mergedPart(began[name], edited[name], present[name]);
    if (part === CLASH) return CLASH;
    // A missing field is one that was removed.
    if (part !== undefined) result[name] = part;
  }
  return result;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function isSame(one: unknown, other: unknown): boolean {
  if (isObject(one) && isObject(other)) {
    const names = Object.keys(one);
    return (
      names.length === Object.keys(other).length &&
      names.every((name) => name in other && isSame(one[name], other[name]))
    );
  }
  return rounded(one) === rounded(other);
}

/** Either of two integers beyond 2^53 may be rounded already. */
function rounded(value: unknown): unknown {
  return typeof value === "bigint" ? Number(value) : value;
}
