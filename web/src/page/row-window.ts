// The part of a long list that is in the document: the visible rows, and some above and below.

import { computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { useEffect, useMemo, type MutableRef } from "preact/hooks";

/** A list up to this length is in the document as a whole, so that the browser can search it. */
const WHOLE = 40;
/** Number of rows above and below the visible ones: the focus moves among them by keys. */
const AROUND = 2;
/** The window moves by this number of rows. */
const STEP = 4;
/** Height of a row before one was measured. Unit: px. */
const HEIGHT = 27;

interface Place {
  first: number;
  last: number;
  height: number;
}

export interface RowWindow {
  ids: readonly string[];
  first: number;
  /** Heights of what is not in the document. Unit: px. */
  above: number;
  below: number;
}

/** Returns the part of `ids` that is visible in the scrolled parent of `body`. */
export function useRowWindow(body: MutableRef<HTMLElement | null>, ids: ReadonlySignal<readonly string[]>): ReadonlySignal<RowWindow> {
  const place = useMemo(() => signal<Place>({ first: 0, last: WHOLE, height: HEIGHT }), []);
  useEffect(() => {
    const scrolled = body.current?.closest(".scroll");
    if (!scrolled) return undefined;
    const follow = () => measure(scrolled, place);
    scrolled.addEventListener("scroll", follow, { passive: true });
    const resized = new ResizeObserver(follow);
    resized.observe(scrolled);
    return () => {
      scrolled.removeEventListener("scroll", follow);
      resized.disconnect();
    };
  }, []);
  return useMemo(() => computed(() => part(ids.value, place.value)), []);
}

function measure(scrolled: Element, place: Signal<Place>): void {
  const height = scrolled.querySelector<HTMLElement>("tr[data-id]")?.offsetHeight || HEIGHT;
  const first = Math.floor(scrolled.scrollTop / height / STEP) * STEP;
  const last = Math.ceil((scrolled.scrollTop + scrolled.clientHeight) / height / STEP) * STEP;
  const before = place.peek();
  if (before.first !== first || before.last !== last || before.height !== height) place.value = { first, last, height };
}

function part(ids: readonly string[], { first, last, height }: Place): RowWindow {
  if (ids.length <= WHOLE) return { ids, first: 0, above: 0, below: 0 };
  // A filter may have shortened the list below the scrolled place.
  const from = Math.max(0, Math.min(first, ids.length - WHOLE) - AROUND);
  const to = Math.min(ids.length, last + AROUND);
  return { ids: ids.slice(from, to), first: from, above: from * height, below: (ids.length - to) * height };
}
