// What the user looks at, in the URL: a link shows the same rows, order and range.

import { effect, signal } from "@preact/signals";

export type SortKey = "name" | "asked" | "granted" | "delivered" | "missed" | "used" | "waited" | "state";
export type View = "vms" | "cpus" | "history" | "timeline" | "changes";

const VIEWS: readonly View[] = ["vms", "cpus", "history", "timeline", "changes"];
const KEYS: readonly SortKey[] = ["name", "asked", "granted", "delivered", "missed", "used", "waited", "state"];

const query = new URLSearchParams(location.hash.slice(1));
const oneOf = <T extends string>(all: readonly T[], text: string | null): T | undefined =>
  all.find((one) => one === text);

export const view = signal<View>(oneOf(VIEWS, query.get("view")) ?? "vms");
export const search = signal(query.get("search") ?? "");
// The phase of the VMs that are shown; empty: all.
export const phase = signal(query.get("state") ?? "");
export const sortBy = signal<SortKey>(oneOf(KEYS, query.get("sort")) ?? "name");
export const isDescending = signal(query.get("down") === "1");
// The range of the history. Unit: ms before now, or two times since 1970.
export const range = signal(query.get("range") ?? "5min");
// Price of a CPU for an hour, in any currency; 0: costs are not shown.
export const price = signal(Math.max(0, Number(query.get("price")) || 0));

effect(() => {
  const next = new URLSearchParams();
  const put = (name: string, value: string, usual: string) => value !== usual && next.set(name, value);
  put("view", view.value, "vms");
  put("search", search.value, "");
  put("state", phase.value, "");
  put("sort", sortBy.value, "name");
  put("down", isDescending.value ? "1" : "0", "0");
  put("range", range.value, "5min");
  put("price", String(price.value), "0");
  history.replaceState(null, "", `#${next}`);
});
