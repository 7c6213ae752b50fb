// Several timelines in a row as one recording: which thread ran on each CPU, with gaps where nothing was recorded.

import type { RunThread, Timeline } from "./api";

/** A stretch in which one thread ran, by the clock of the host. Unit: ns. */
export interface Run {
  from: number;
  to: number;
  tid: number;
}

export interface Span {
  from: number;
  to: number;
}

export interface Recording {
  /** The recorded times, in order. */
  spans: Span[];
  /** The runs on each CPU, in order. */
  cpus: Map<number, Run[]>;
  threads: Map<number, RunThread>;
  lost: number;
}

export const NOTHING: Recording = { spans: [], cpus: new Map(), threads: new Map(), lost: 0 };

/**
 * Returns the recording with another timeline at its end, and at most `kept` ns before. A simulated host replies with its latest
 * time at once, so a timeline may begin before the end of the recording: this part is known already.
 */
export function extended(before: Recording, { from_ns, length_ns, cpus, threads, lost }: Timeline, kept: number): Recording {
  const end = from_ns + length_ns;
  const start = end - kept;
  const begin = Math.max(from_ns, before.spans.at(-1)?.to ?? from_ns);
  const all = new Map([...before.cpus].map(([cpu, runs]) => [cpu, runs.filter(({ to }) => to > start)]));
  for (const { cpu, stretches } of cpus) {
    const added = stretches.flatMap(([from, to, at]) => {
      const tid = threads[at]?.tid;
      const run = { from: Math.max(from_ns + from, begin), to: from_ns + to };
      return tid === undefined || run.to <= run.from ? [] : [{ ...run, tid }];
    });
    all.set(cpu, [...(all.get(cpu) ?? []), ...added]);
  }
  return {
    spans: [...before.spans.filter(({ to }) => to > start), ...(begin < end ? [{ from: begin, to: end }] : [])],
    cpus: new Map([...all].sort(([a], [b]) => a - b)),
    threads: new Map([...before.threads, ...threads.map((thread) => [thread.tid, thread] as const)]),
    lost: before.lost + lost,
  };
}

export function extent({ spans }: Recording): Span | undefined {
  const [first, last] = [spans[0], spans.at(-1)];
  return first && last && { from: first.from, to: last.to };
}

/** Returns the index of the first run that ends after `at`. */
export function firstAfter(runs: readonly Run[], at: number): number {
  let [low, high] = [0, runs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((runs[middle]?.to ?? 0) > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Returns the run on a CPU at a time. */
export function runAt({ cpus }: Recording, cpu: number, at: number): Run | undefined {
  const runs = cpus.get(cpu) ?? [];
  const run = runs[firstAfter(runs, at)];
  return run && run.from <= at ? run : undefined;
}

export interface Total {
  tid: number;
  ran: number;
  runs: number;
  longest: number;
}

/** Returns the threads that ran in a span, the longest first. */
export function totals({ cpus }: Recording, { from, to }: Span): Total[] {
  const all = new Map<number, Total>();
  for (const runs of cpus.values()) {
    for (let at = firstAfter(runs, from); at < runs.length; at += 1) {
      const run = runs[at];
      if (!run || run.from >= to) break;
      const ran = Math.min(run.to, to) - Math.max(run.from, from);
      const total = all.get(run.tid) ?? { tid: run.tid, ran: 0, runs: 0, longest: 0 };
      all.set(run.tid, { ...total, ran: total.ran + ran, runs: total.runs + 1, longest: Math.max(total.longest, ran) });
    }
  }
  return [...all.values()].sort((a, b) => b.ran - a.ran || a.tid - b.tid);
}

/** Returns a span zoomed around a time, within what was recorded. */
export function zoomed(span: Span, factor: number, around: number, whole: Span): Span {
  const length = Math.min(Math.max((span.to - span.from) * factor, 10_000), whole.to - whole.from);
  const part = (around - span.from) / (span.to - span.from);
  return within({ from: around - part * length, to: around + (1 - part) * length }, whole);
}

/** Returns a span moved into `whole`. */
export function within({ from, to }: Span, whole: Span): Span {
  const length = Math.min(to - from, whole.to - whole.from);
  const start = Math.min(Math.max(from, whole.from), whole.to - length);
  return { from: start, to: start + length };
}
