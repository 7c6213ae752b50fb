// The CPUs of a host in the order of its topology: NUMA node, last-level cache, core, CPU.

import type { Cpu } from "./api";

export interface Group {
  /** Such as `NUMA node 0`; empty: the kernel does not report this level. */
  title: string;
  caches: { title: string; cores: { title: string; cpus: Cpu[] }[] }[];
}

export function topology(cpus: readonly Cpu[]): Group[] {
  return grouped(cpus, ({ node }) => node).map(([node, ofNode]) => ({
    title: node === undefined ? "" : `NUMA node ${node}`,
    caches: grouped(ofNode, ({ llc, package: socket }) => llc ?? `p${socket}`).map(([, ofCache]) => ({
      title: cacheTitle(ofCache[0]),
      cores: grouped(ofCache, ({ core, package: socket }) => `${socket}.${core}`).map(([, ofCore]) => ({
        title: `core ${ofCore[0]?.core ?? ""}`,
        cpus: ofCore,
      })),
    })),
  }));
}

function cacheTitle(cpu: Cpu | undefined): string {
  if (!cpu) return "";
  return cpu.llc === undefined ? `package ${cpu.package}` : `LLC ${cpu.llc}, package ${cpu.package}`;
}

function grouped<K>(cpus: readonly Cpu[], key: (cpu: Cpu) => K): [K, Cpu[]][] {
  const groups = new Map<K, Cpu[]>();
  for (const cpu of cpus) groups.set(key(cpu), [...(groups.get(key(cpu)) ?? []), cpu]);
  return [...groups];
}
