/** Data that is asked for again and again while somebody looks. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api/request.ts";

export interface Polled<Data> {
  readonly data: Data | undefined;
  readonly error: Error | undefined;
  /** Asks at once. */
  readonly reload: () => void;
}

/**
 * Asks for a path now, and then every so often as long as the page is visible.
 *
 * What was there stays when an answer fails, beside the error.
 */
export function usePolled<Data>(path: string | null, intervalMs: number): Polled<Data> {
  const [state, setState] = useState<{ path: string | null; data?: Data; error?: Error }>({ path });
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
        // The answer under way may be older than what the caller knows of.
        isAskedAgain = true;
        return;
      }
      clearTimeout(timer);
      isAsking = true;
      try {
        const data = await get<Data>(path, abort.signal);
        if (!abort.signal.aborted) setState({ path, data });
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
  // What belongs to another path is not shown, not even for one frame.
  const isOurs = state.path === path;
  return { data: isOurs ? state.data : undefined, error: isOurs ? state.error : undefined, reload };
}
