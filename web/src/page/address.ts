// The state of the page in its address, so that a link shows what the page shows.

import type { Column, Sorting } from "./rows";

export const VIEWS = ["vms", "cpus", "history", "timeline", "changes"] as const;
export type View = (typeof VIEWS)[number];

export interface Address {
  view: View;
  query: string;
  sorting: Sorting;
  /** Ids of the selected VMs. */
  selected: string[];
  /** The shown time of the history. */
  range: TimeRange;
}

/** The latest `last_ms`, or a fixed time. Unit: ms since 1970-01-01 00:00 UTC. */
export type TimeRange = { last_ms: number } | { from_ms: number; to_ms: number };

const COLUMNS: Column[] = [
  "name",
  "state",
  "asked",
  "granted",
  "delivered",
  "missed",
  "used",
  "waited",
  "efficiency",
  "weight",
  "cap",
  "cost",
];

export const DEFAULT: Address = {
  view: "vms",
  query: "",
  sorting: { column: "name", isDescending: false },
  selected: [],
  range: { last_ms: 300_000 },
};

export function parse(search: string): Address {
  const values = new URLSearchParams(search);
  const view = VIEWS.find((view) => view === values.get("view")) ?? DEFAULT.view;
  const sort = values.get("sort") ?? "";
  const column = COLUMNS.find((column) => column === sort.replace(/^-/, "")) ?? "name";
  return {
    view,
    query: values.get("q") ?? "",
    sorting: { column, isDescending: sort.startsWith("-") },
    selected: values.getAll("vm"),
    range: parseRange(values),
  };
}

function parseRange(values: URLSearchParams): TimeRange {
  const [from_ms, to_ms, last_ms] = ["from", "to", "last"].map((name) => Number(values.get(name)));
  if (from_ms && to_ms && from_ms < to_ms) return { from_ms, to_ms };
  return last_ms && last_ms >= 1000 ? { last_ms } : DEFAULT.range;
}

/** Returns the query of the address, without what is as usual. */
export function print(address: Address): string {
  const values = new URLSearchParams();
  const { view, query, sorting, selected, range } = address;
  if (view !== DEFAULT.view) values.set("view", view);
  if (query) values.set("q", query);
  if (sorting.column !== "name" || sorting.isDescending) {
    values.set("sort", `${sorting.isDescending ? "-" : ""}${sorting.column}`);
  }
  for (const id of selected) values.append("vm", id);
  if ("from_ms" in range) {
    values.set("from", String(Math.round(range.from_ms)));
    values.set("to", String(Math.round(range.to_ms)));
  } else if (range.last_ms !== (DEFAULT.range as { last_ms: number }).last_ms) values.set("last", String(range.last_ms));
  const text = values.toString().replaceAll("%3A", ":");
  return text && `?${text}`;
}
