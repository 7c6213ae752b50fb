// Figures of the benchmarks, each with the bound that the project has set itself.

/** Returns the value below which a part of the values lies. */
export function quantile(values, part) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
}

/** Prints the median of the runs with minimum and maximum, and whether it meets its bound. */
export function report(what, unit, figures, { most, least }) {
  const [median, from, to] = [0.5, 0, 1].map((part) => quantile(figures, part));
  const isMet = least === undefined ? median <= most : median >= least;
  const bound = least === undefined ? `at most ${most}` : `at least ${least}`;
  const spread = `(${from.toFixed(2)} to ${to.toFixed(2)})`;
  console.log(`${what.padEnd(58)}${median.toFixed(2).padStart(9)} ${unit.padEnd(4)} ${spread}, ${bound}: ${isMet ? "met" : "NOT met"}`);
}

/** Measures `runs` times. */
export async function repeat(runs, measure) {
  const figures = [];
  for (let run = 0; run < runs; run += 1) figures.push(await measure());
  return figures;
}
