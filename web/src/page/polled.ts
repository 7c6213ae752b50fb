// Values that are read again and again while something shows them.

import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { read, Refused } from "./api";

// The latest reply, or the reason why there is none.
export interface Polled<T> {
  value?: T;
  problem?: string;
}

// Reads `path` every `pause` ms while the component exists.
export function usePolled<T>(path: string, pause: number): Signal<Polled<T>> {
  const polled = useSignal<Polled<T>>({});
  useEffect(() => {
    const ends = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const again = async () => {
      try {
        polled.value = { value: await read<T>(path, ends.signal) };
      } catch (error) {
        if (ends.signal.aborted) return;
        const problem = error instanceof Refused ? error.problem.detail : String(error);
        // The last value stays, with the reason why there is no newer one.
        polled.value = { ...polled.peek(), problem };
      }
      if (!ends.signal.aborted) timer = setTimeout(() => void again(), pause);
    };
    void again();
    return () => {
      ends.abort();
      clearTimeout(timer);
    };
  }, [path, pause]);
  return polled;
}
