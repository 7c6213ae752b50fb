// Values that a view reads again and again while it is shown.

import { signal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Problem } from "./api";
import { getIfKnown, problemOf } from "./client";

/** `value` is the last one that was read; `problem` is why there is no newer one. */
export interface Polled<T> {
  value?: T;
  problem?: Problem;
  /** Whether the service is of a version without the path. */
  isUnknown?: boolean;
}

/** Reads `path()` now and every `interval_ms` while the tab is visible. */
export function usePolled<T>(path: () => string, interval_ms: number, key: string): ReadonlySignal<Polled<T>> {
  const polled = useMemo(() => signal<Polled<T>>({}), []);
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const read = async () => {
      if (!document.hidden) {
        try {
          const value = await getIfKnown<T>(path(), abort.signal);
          if (abort.signal.aborted) return;
          polled.value = value === undefined ? { isUnknown: true } : { value };
        } catch (error) {
          if (abort.signal.aborted) return;
          polled.value = { ...polled.peek(), problem: problemOf(error) };
        }
      }
      timer = window.setTimeout(() => void read(), interval_ms);
    };
    void read();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key]);
  return polled;
}
