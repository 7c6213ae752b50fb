// The speed of the simulator in WebAssembly beside the native program, in turns.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { TACTUS } from "../tests/page/service.mjs";

const ROOT = resolve(import.meta.dirname, "../..");
/** Long runs, so that the start of the native program counts little. */
const SCENARIO = "scenarios/three-vms.toml";
const LENGTH_MS = 20_000;
export const POLICIES = ["edf", "credit", "cfs"];

/** Returns the speed of the module as a part of that of the native program. */
export function speed(module, policy) {
  const { simulate } = createRequire(import.meta.url)(resolve(module));
  const scenario = readFileSync(resolve(ROOT, SCENARIO), "utf8").replace(/^length = .*$/m, `length = "${LENGTH_MS}ms"`);
  const request = JSON.stringify({ name: SCENARIO, scenario, policies: [policy] });
  const timed = (run) => {
    const from = performance.now();
    run();
    return performance.now() - from;
  };
  const place = mkdtempSync(join(tmpdir(), "tactus-bench-"));
  const file = join(place, "scenario.toml");
  writeFileSync(file, scenario);
  const native = () => {
    const { status, stderr } = spawnSync(TACTUS, ["sim", file, "--json", "--policy", policy], { encoding: "utf8", maxBuffer: 1 << 28 });
    if (status !== 0) throw new Error(stderr);
  };
  try {
    // The first run compiles the module.
    simulate(request, () => {});
    return timed(native) / timed(() => simulate(request, () => {}));
  } finally {
    rmSync(place, { recursive: true });
  }
}
