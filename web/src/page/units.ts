// Times and shares as text: what users type, and what tables show.

const UNITS: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, min: 60e9 };

// Returns the length of a typed time in nanoseconds, or the reason why it is none. A number needs a unit: 2 alone could be
// meant as seconds or milliseconds.
export function parseTime(text: string): number | string {
  const found = /^\s*(\d+(?:\.\d+)?)\s*([a-zµ]*)\s*$/.exec(text);
  if (!found) return "this is no time; use a number with a unit, such as 2ms";
  const unit = UNITS[found[2] ?? ""];
  if (unit === undefined) return "the time needs a unit: ns, us, ms, s or min";
  const ns = Math.round(Number(found[1]) * unit);
  return ns > 0 && Number.isSafeInteger(ns) ? ns : "the time is out of range";
}

// Returns a time exactly, in the largest unit in which it is at least 1: 2ms, 2.5ms, 33.166667ms.
export function time(ns: number): string {
  const unit = (["s", "ms", "us"] as const).find((unit) => ns >= (UNITS[unit] ?? 1)) ?? "ns";
  return `${Number((ns / (UNITS[unit] ?? 1)).toFixed(9))}${unit}`;
}

// Returns a measured time, rounded to three digits: 1.24 ms.
export function roughTime(ns: number): string {
  for (const [unit, length] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]] as const) {
    if (ns >= length) return `${Number((ns / length).toPrecision(3))} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

// Returns a share in percent with one decimal, and with two below 1 %.
export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${value.toFixed(value !== 0 && value < 1 ? 2 : 1)} %`;
}

// Positions of a slider with a logarithmic scale: 0 is `least`, STEPS is `most`.
export const STEPS = 600;

export function toSlider(ns: number, least: number, most: number): number {
  return Math.round((Math.log(ns / least) / Math.log(most / least)) * STEPS);
}

// Returns the time at a position of a slider, rounded to three digits so that it can be read. Neighbouring positions differ by 2 %.
export function fromSlider(at: number, least: number, most: number): number {
  const exact = least * (most / least) ** (at / STEPS);
  const digit = 10 ** Math.max(0, Math.floor(Math.log10(exact)) - 2);
  return Math.min(most, Math.max(least, Math.round(exact / digit) * digit));
}
