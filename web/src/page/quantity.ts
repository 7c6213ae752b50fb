// Durations and shares as text: typed, printed, and on the scale of a slider.

/** A value, or what is wrong with the text and what to type. */
export type Read<T> = { value: T } | { error: string; help: string };

type Unit = [name: string, ns: number];
const UNITS: Unit[] = [
  ["ns", 1],
  ["us", 1e3],
  ["ms", 1e6],
  ["s", 1e9],
  ["min", 60e9],
];

export interface Range {
  least: number;
  most: number;
}

/** What a slider offers. A typed value may be anything that the service accepts. Unit: ns. */
export const SLICE: Range = { least: 10e3, most: 60e9 };
export const PERIOD: Range = { least: 100e3, most: 600e9 };
/** Number of steps of a slider. */
export const STEPS = 1000;

/** Reads a duration with a unit. `what` is its name in a message, and `example` a value of the right form. */
export function readDuration(text: string, what: string, example: string): Read<number> {
  const parts = /^\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zµμ]*)\s*$/i.exec(text);
  if (text.trim() === "") return { error: `the ${what} is missing`, help: `type a time with a unit, such as ${example}` };
  if (!parts) return { error: `${text.trim()} is no time`, help: `type a time with a unit, such as ${example}` };
  const [, number = "", unit = ""] = parts;
  if (unit === "") return { error: `${number} has no unit`, help: `add ns, us, ms, s or min, as in ${example}` };
  const known = UNITS.find(([name]) => name === unit.toLowerCase().replace(/[µμ]/, "u"));
  if (!known) return { error: `${unit} is no unit of time`, help: "use ns, us, ms, s or min" };
  const ns = Math.round(Number(number) * known[1]);
  if (ns < 1) return { error: `the ${what} is zero`, help: `type a time with a unit, such as ${example}` };
  if (ns > Number.MAX_SAFE_INTEGER) return { error: `the ${what} is too long`, help: "use at most 10 min" };
  return { value: ns };
}

/** Returns a duration exactly, in the largest unit in which it is at least 1. */
export function exactDuration(ns: number): string {
  const [name, length] = largestUnit(ns, UNITS);
  // Minutes are rarely a finite decimal fraction.
  if (name === "min" && ns % length !== 0) return `${trimmed((ns / 1e9).toFixed(9))}s`;
  return `${trimmed((ns / length).toFixed(9))}${name}`;
}

/** Returns a measured duration with three digits. */
export function shortDuration(ns: number): string {
  if (ns < 1) return "0";
  const [name, length] = largestUnit(ns, UNITS.slice(0, -1));
  return `${threeDigits(ns / length)}${name}`;
}

function largestUnit(ns: number, units: Unit[]): Unit {
  return units.filter(([, length]) => ns >= length).at(-1) ?? ["ns", 1];
}

function trimmed(number: string): string {
  return number.replace(/\.?0+$/, "");
}

function threeDigits(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** Returns a part as a percentage with one decimal. */
export function percent(part: number): string {
  return `${(100 * part).toFixed(1)}%`;
}

/** Returns a whole number in groups of three digits. */
export function count(number: number): string {
  return String(number).replace(/\B(?=(\d{3})+$)/g, " ");
}

/** Reads a whole number from `least` to `most`; empty text is `undefined`. */
export function readCount(text: string, what: string, least: number, most: number): Read<number | undefined> {
  if (text.trim() === "") return { value: undefined };
  const value = /^\s*\d+\s*%?\s*$/.test(text) ? parseInt(text, 10) : NaN;
  if (value >= least && value <= most) return { value };
  const help = `use a whole number from ${count(least)} to ${count(most)}, or nothing`;
  return { error: `the ${what} is out of range`, help };
}

/** Returns the position of a duration on a logarithmic slider. */
export function toSlider(ns: number, { least, most }: Range): number {
  const part = Math.log(Math.min(Math.max(ns, least), most) / least) / Math.log(most / least);
  return Math.round(STEPS * part);
}

/** Returns the duration at a position of a logarithmic slider, with two digits. */
export function fromSlider(position: number, range: Range): number {
  return twoDigits(range.least * (range.most / range.least) ** (position / STEPS), range);
}

/** Returns the duration after a slider at `before` has come to a position. A step by a key is shorter than the last of two
 * digits, and changes this digit. */
export function moved(before: number, position: number, range: Range): number {
  const steps = position - toSlider(before, range);
  const value = fromSlider(position, range);
  if (Math.abs(steps) !== 1 || (value - before) * steps > 0) return value;
  // The step below 10 is that of 9.9.
  const digit = 10 ** (Math.floor(Math.log10(steps < 0 ? before * 0.999 : before)) - 1);
  return twoDigits(before + steps * digit, range);
}

/** Returns the nearest duration with two digits in a range. */
export function twoDigits(ns: number, { least, most }: Range): number {
  const step = 10 ** (Math.floor(Math.log10(ns)) - 1);
  return Math.min(Math.max(Math.round(Math.round(ns / step) * step), least), most);
}
