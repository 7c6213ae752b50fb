import type { Cpu, Cpus, PromisedPart } from "./api";
import { select } from "./editor";
import { usePolled } from "./polled";
import { percent } from "./quantity";
import { events, host, rows, selected, view } from "./store";
import { topology, type Group } from "./topology";
import { Trouble } from "./trouble";

const INTERVAL_MS = 2000;

/** What is promised of each CPU, against what may be promised. */
export function CpusView() {
  // A change of a promise is shown at once.
  const changes = events.value.filter(({ event }) => event === "changed" || event === "state").at(-1)?.number ?? 0;
  const polled = usePolled<Cpus>(() => "/v1/cpus", INTERVAL_MS, String(changes)).value;
  const { value } = polled;
  return (
    <div class="cpus">
      <Trouble polled={polled} what="list of CPUs" />
      {value && <Reserve value={value} />}
      <div class="topology">
        {value && topology(value.cpus).map((group) => <Node key={group.title} group={group} value={value} />)}
      </div>
      {value && value.anywhere.length > 0 && <Anywhere parts={value.anywhere} />}
    </div>
  );
}

function Reserve({ value: { promisable_percent, cpus, anywhere } }: { value: Cpus }) {
  if (promisable_percent === undefined) return <p class="note">The service has no core, so nothing is promised.</p>;
  const fixed = cpus.reduce((sum, { promised_ppm }) => sum + promised_ppm, 0) / 1e6;
  const onAny = anywhere.reduce((sum, { ppm }) => sum + ppm, 0) / 1e6;
  const most = (cpus.length * promisable_percent) / 100;
  return (
    <p class="note">
      {percent(fixed + onAny)} of {percent(most)} is promised: {percent(fixed)} on fixed CPUs, and {percent(onAny)} on any CPU, of
      which each bar shows an equal part in a lighter color. Gray may still be promised. The part of each CPU above{" "}
      {promisable_percent}%, behind the line, stays free for everything else. What the CPUs do now is in the timeline.
    </p>
  );
}

function Node({ group, value }: { group: Group; value: Cpus }) {
  return (
    <section class="node">
      {group.title && <h3>{group.title}</h3>}
      {group.caches.map(({ title, cores }) => (
        <section class="cache" key={title}>
          <h4>{title}</h4>
          {cores.map(({ title, cpus }) => (
            <div class="core" key={title}>
              {cpus.map((cpu) => (
                <CpuBar key={cpu.cpu} cpu={cpu} anyPpm={anyOf(value)} most={value.promisable_percent ?? 0} core={title} />
              ))}
            </div>
          ))}
        </section>
      ))}
    </section>
  );
}

/** Returns the part of each CPU that promises on any CPU need on average. */
function anyOf({ cpus, anywhere }: Cpus): number {
  return anywhere.reduce((sum, { ppm }) => sum + ppm, 0) / Math.max(1, cpus.length);
}

interface BarOf {
  cpu: Cpu;
  /** Part of promises on any CPU. */
  anyPpm: number;
  most: number;
  core: string;
}

function CpuBar({ cpu: { cpu, promised_ppm, promises }, anyPpm, most, core }: BarOf) {
  let from = 0;
  const parts = promises.map((part) => {
    from += part.ppm;
    return { ...part, from: from - part.ppm };
  });
  return (
    <div class="cpu">
      <span class="label" title={core}>
        CPU {cpu}
      </span>
      <svg viewBox="0 0 1000 16" preserveAspectRatio="none" role="img" aria-label={described(cpu, promised_ppm, anyPpm, promises)}>
        <rect class="free" x="0" y="0" width={10 * most} height="16" />
        {parts.map(({ vm, ppm, from }) => (
          <rect
            key={vm}
            class="promised"
            data-selected={selected.value.includes(vm) ? "" : undefined}
            x={from / 1000}
            y="0"
            width={Math.max(1, ppm / 1000 - 1.5)}
            height="16"
          >
            <title>{`${nameOf(vm)}: ${percent(ppm / 1e6)}`}</title>
          </rect>
        ))}
        {anyPpm > 0 && (
          <rect class="promised any" x={from / 1000} y="0" width={Math.max(1, anyPpm / 1000)} height="16">
            <title>{`promises on any CPU: ${percent(anyPpm / 1e6)} on average`}</title>
          </rect>
        )}
        <line class="limit" x1={10 * most} x2={10 * most} y1="0" y2="16" />
      </svg>
      <span class="number">
        {percent((promised_ppm + anyPpm) / 1e6)} of {most}%
      </span>
      <span class="parts">
        {promises.map((part) => (
          <PartLink key={part.vm} part={part} />
        ))}
      </span>
    </div>
  );
}

function described(cpu: number, promised_ppm: number, anyPpm: number, promises: PromisedPart[]): string {
  const parts = promises.map(({ vm, ppm }) => `${nameOf(vm)} ${percent(ppm / 1e6)}`);
  const any = anyPpm > 0 ? [`promises on any CPU ${percent(anyPpm / 1e6)} on average`] : [];
  return [`CPU ${cpu}: ${percent((promised_ppm + anyPpm) / 1e6)} promised`, ...parts, ...any].join(", ");
}

function nameOf(id: string): string {
  return rows.get(id)?.vm.value.name ?? id;
}

function PartLink({ part: { vm, ppm } }: { part: PromisedPart }) {
  const open = () => {
    select([vm]);
    view.value = "vms";
  };
  return (
    <button type="button" class="open" onClick={open}>
      {nameOf(vm)} {percent(ppm / 1e6)}
    </button>
  );
}

function Anywhere({ parts }: { parts: PromisedPart[] }) {
  return (
    <section class="anywhere">
      <h3>On any CPU</h3>
      <p class="note">
        {host.value?.simulated ? "The policy" : "The kernel (SCHED_DEADLINE)"} chooses the CPU of these promises.
      </p>
      <p class="parts">
        {parts.map((part) => (
          <PartLink key={part.vm} part={part} />
        ))}
      </p>
    </section>
  );
}
