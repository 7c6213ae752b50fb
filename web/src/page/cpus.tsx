// The CPUs by package, NUMA node and last-level cache: what is promised of each, against what may be promised.

import type { Cpu, Cpus, Part } from "./api";
import { usePolled } from "./polled";
import { edited, vms } from "./store";
import { percent } from "./units";

const WIDTH = 240;
const HEIGHT = 14;

const nameOf = (id: string) => vms.value.get(id)?.name ?? id;

// The promised part of a CPU as a bar, with a mark at the part that may be promised.
function Bar({ cpu, promisable }: { cpu: Cpu; promisable: number }) {
  let left = 0;
  const parts = cpu.promises.map((part) => {
    const [from, width] = [left, (part.ppm / 1e6) * WIDTH];
    left += width;
    return { part, from, width };
  });
  const sum = cpu.promised_ppm / 1e6;
  return (
    <svg class="bar" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${percent(sum)} of CPU ${cpu.cpu} is promised`}>
      <rect class="room" width={WIDTH} height={HEIGHT} />
      {parts.map(({ part, from, width }) => (
        <rect
          class={edited.value === part.vm ? "part edited" : "part"}
          x={from}
          width={Math.max(0, width - 1)}
          height={HEIGHT}
          onClick={() => (edited.value = part.vm)}
        >
          <title>
            {nameOf(part.vm)}: {percent(part.ppm / 1e6)}
          </title>
        </rect>
      ))}
      <line class="limit" x1={promisable * WIDTH} x2={promisable * WIDTH} y1={0} y2={HEIGHT} />
    </svg>
  );
}

function Row({ cpu, promisable }: { cpu: Cpu; promisable: number }) {
  return (
    <tr>
      <th scope="row">CPU {cpu.cpu}</th>
      <td class="number">{cpu.core}</td>
      <td class="number">{percent(cpu.promised_ppm / 1e6)}</td>
      <td>
        <Bar cpu={cpu} promisable={promisable} />
      </td>
      <td>{cpu.promises.map((part) => nameOf(part.vm)).join(", ")}</td>
    </tr>
  );
}

// Returns the CPUs in groups that share a package, a node and a cache.
function groups(cpus: Cpu[]): [string, Cpu[]][] {
  const all = new Map<string, Cpu[]>();
  for (const cpu of cpus) {
    const node = cpu.node === undefined ? "" : `, NUMA node ${cpu.node}`;
    const cache = cpu.llc === undefined ? "" : `, last-level cache ${cpu.llc}`;
    const name = `package ${cpu.package}${node}${cache}`;
    all.set(name, [...(all.get(name) ?? []), cpu]);
  }
  return [...all];
}

function Anywhere({ parts }: { parts: Part[] }) {
  if (parts.length === 0) return null;
  const sum = parts.reduce((sum, part) => sum + part.ppm, 0) / 1e6;
  const names = [...new Set(parts.map((part) => nameOf(part.vm)))].join(", ");
  return (
    <p>
      The kernel chooses the CPUs of {percent(sum)} more (SCHED_DEADLINE): {names}.
    </p>
  );
}

export function CpuView() {
  const { value, problem } = usePolled<Cpus>("/v1/cpus", 1_000).value;
  if (!value) return <p class="note">{problem ?? "Reading…"}</p>;
  const promisable = (value.promisable_percent ?? 0) / 100;
  return (
    <section aria-label="CPUs">
      {problem && <p class="note bad">{problem}</p>}
      <p class="note">
        {value.promisable_percent === undefined
          ? "The service has no core: nothing can be promised."
          : `Up to ${value.promisable_percent} % of each CPU may be promised; the mark shows this limit.`}
      </p>
      {groups(value.cpus).map(([name, cpus]) => (
        <table>
          <caption>{name}</caption>
          <thead>
            <tr>
              <th scope="col">CPU</th>
              <th scope="col" class="number">
                core
              </th>
              <th scope="col" class="number">
                promised
              </th>
              <th scope="col">parts</th>
              <th scope="col">VMs</th>
            </tr>
          </thead>
          <tbody>
            {cpus.map((cpu) => (
              <Row key={cpu.cpu} cpu={cpu} promisable={promisable} />
            ))}
          </tbody>
        </table>
      ))}
      <Anywhere parts={value.anywhere} />
    </section>
  );
}
