/// <reference types="vite/client" />
// The scenarios of the repository, and the files to which they refer.

const found: Record<string, string> = import.meta.glob("../../../scenarios/**/*.{toml,json}", {
  query: "?raw",
  import: "default",
  eager: true,
});

/** All files by their paths in the repository. */
export const files: Record<string, string> = Object.fromEntries(
  Object.entries(found).map(([path, text]) => [path.slice(path.indexOf("scenarios/")), text]),
);

/** The benchmark runs for too long for a page. */
const LEFT_OUT = "bench-two-level";

/** The names of the scenarios: their files without a folder and an ending. */
export const names: string[] = Object.keys(files)
  .map((path) => /^scenarios\/([^/]+)\.toml$/.exec(path)?.[1])
  .filter((name): name is string => name !== undefined && name !== LEFT_OUT)
  .sort();

/** Returns the path of a scenario. */
export const path = (name: string): string => `scenarios/${name}.toml`;

/** Returns the text of a scenario; empty if there is no such scenario. */
export const text = (name: string): string => files[path(name)] ?? "";

/** Returns the title of a scenario. */
export function title(name: string): string {
  return /^name = "(.*)"/m.exec(text(name))?.[1] ?? name;
}
