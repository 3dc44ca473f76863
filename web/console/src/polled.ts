/** Data that is polled while the page is visible. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api/request.ts";

export interface Polled<Data> {
  readonly data: Data | undefined;
  readonly error: Error | undefined;
  /** Time of the data, in milliseconds since the Unix epoch. */
  readonly seenAt: number | undefined;
  /** Poll at once. */
  readonly reload: () => void;
}

/**
 * Poll a path now, and then at an interval while the page is visible.
 *
 * If a request fails, earlier data stay available next to the error.
 */
export function usePolled<Data>(path: string | null, intervalMs: number): Polled<Data> {
  const [state, setState] = useState<{ path: string | null; data?: Data; error?: Error; seenAt?: number }>({
    path,
  });
  const asked = useRef<() => void>(() => {});

  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isAsking = false;
    let isAskedAgain = false;
    const ask = async () => {
      if (abort.signal.aborted) return;
      if (isAsking) {
        // The response in flight may be older than the change that the caller has made.
        isAskedAgain = true;
        return;
      }
      clearTimeout(timer);
      isAsking = true;
      try {
        const data = await get<Data>(path, abort.signal);
        if (!abort.signal.aborted) setState({ path, data, seenAt: Date.now() });
      } catch (error) {
        if (!abort.signal.aborted) {
          setState((before) =>
            before.path === path ? { ...before, error: error as Error } : { path, error: error as Error },
          );
        }
      } finally {
        isAsking = false;
        if (!abort.signal.aborted && !document.hidden) timer = setTimeout(ask, isAskedAgain ? 0 : intervalMs);
        isAskedAgain = false;
      }
    };
    const seen = () => {
      if (!document.hidden) void ask();
    };
    asked.current = () => void ask();
    document.addEventListener("visibilitychange", seen);
    void ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [path, intervalMs]);

  const reload = useCallback(() => asked.current(), []);
  // Data of another path is never rendered, not even for one frame.
  const isOurs = state.path === path;
  return {
    data: isOurs ? state.data : undefined,
    error: isOurs ? state.error : undefined,
    seenAt: isOurs ? state.seenAt : undefined,
    reload,
  };
}
