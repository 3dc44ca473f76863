/** Notices on the page, announced to screen readers. */

import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/request.ts";
import { duration, time } from "../format.ts";
import { onSessionChange, session } from "../session.ts";

/** Consequences of a page's errors for its user. */
export interface Meaning {
  /** Permission that the page needs, as the page of a user shows it. */
  needs?: string | undefined;
  /** Text for an object that does not exist. */
  missing?: string | undefined;
}

interface ErrorNoticeProps extends Meaning {
  error: Error;
  /** Time of the content that is still shown, in milliseconds since the Unix epoch. */
  seenAt?: number | undefined;
}

export function ErrorNotice({ error, seenAt, ...meaning }: ErrorNoticeProps) {
  return (
    <div class="notice bad" role="alert">
      {messageOf(error, meaning)}
      {error instanceof ApiError && error.code !== null && <span class="quiet"> (code {error.code})</span>}
      {seenAt !== undefined && (
        <p class="quiet">
          Last seen {time(seenAt * 1000).slice(0, 19)}, {duration((Date.now() - seenAt) / 1000)} ago. The page
          shows the state of then, and asks again by itself.
        </p>
      )}
    </div>
  );
}

function messageOf(error: Error, { needs, missing }: Meaning): string {
  if (error instanceof ApiError && error.status === 403) {
    return needs === undefined
      ? "Your account does not have the right to this."
      : `Your account does not have the right “${needs}”, which this page needs.`;
  }
  if (error instanceof ApiError && error.status === 404 && error.code === 404) {
    return missing ?? "The resource does not exist.";
  }
  return error.message;
}

/** A notice for each problem. */
export function Problems({ problems }: { problems: readonly string[] }) {
  return (
    <>
      {problems.map((problem) => (
        <p key={problem} class="notice warn" role="status">
          {problem}
        </p>
      ))}
    </>
  );
}

interface Toast {
  id: number;
  text: string;
}

const SHOWN_MS = 5000;
const SHOWN_MAX = 3;
let toasts: readonly Toast[] = [];
let lastId = 0;
const listeners = new Set<() => void>();

/** Show a confirmation for some seconds. */
export function toast(text: string): void {
  lastId += 1;
  const id = lastId;
  change([...toasts, { id, text }].slice(-SHOWN_MAX));
  setTimeout(() => change(toasts.filter((shown) => shown.id !== id)), SHOWN_MS);
}

// Notices of an earlier login are dropped.
onSessionChange(() => {
  if (session() === null) change([]);
});

function change(next: readonly Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}

export function Toasts() {
  const [shown, setShown] = useState(toasts);
  useEffect(() => {
    const listener = () => setShown(toasts);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }, []);
  return (
    <div class="toasts" role="status">
      {shown.map(({ id, text }) => (
        <div key={id} class="notice good">
          {text}
        </div>
      ))}
    </div>
  );
}
