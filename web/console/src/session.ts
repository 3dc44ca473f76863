/** Session of the user. The token is kept for this tab only, until it is closed. */

export interface Session {
  readonly token: string;
  /** Unix seconds. */
  readonly expiresAt: number;
  readonly userId: number;
  readonly username: string;
}

const KEY = "headrace.session";
const listeners = new Set<() => void>();

let current: Session | null = restored();
let ended: string | null = null;

function restored(): Session | null {
  const kept = sessionStorage.getItem(KEY);
  if (kept === null) return null;
  try {
    const session = JSON.parse(kept) as Session;
    return session.expiresAt * 1000 > Date.now() ? session : null;
  } catch {
    return null;
  }
}

export function session(): Session | null {
  return current;
}

/** Reason why the last session has ended, unless the user has logged out. */
export function endedBecause(): string | null {
  return ended;
}

export function beginSession(begun: Session): void {
  current = begun;
  ended = null;
  sessionStorage.setItem(KEY, JSON.stringify(begun));
  notifyListeners();
}

export function endSession(reason: string | null): void {
  if (current === null) return;
  current = null;
  ended = reason;
  sessionStorage.removeItem(KEY);
  notifyListeners();
}

export function onSessionChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function notifyListeners(): void {
  for (const listener of [...listeners]) listener();
}
