// Times as text: `1.5ms`, as scenarios have them.

const UNITS: [string, number][] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["us", 1e3],
  ["ns", 1],
];

/** Formats a time with up to `digits` significant digits. */
export function time(ns: number, digits = 4): string {
  if (ns === 0) {
    return "0";
  }
  const [unit, size] = UNITS.find(([, size]) => Math.abs(ns) >= size) ?? ["ns", 1];
  return `${Number((ns / size).toPrecision(digits))}${unit}`;
}

/** Reads a time such as `2s` or `1.5 ms`. Returns `undefined` if the text is no time. */
export function nanoseconds(text: string): number | undefined {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(s|ms|us|ns)\s*$/.exec(text);
  const size = UNITS.find(([unit]) => unit === found?.[2])?.[1];
  return found && size ? Math.round(Number(found[1]) * size) : undefined;
}
