// The speed of the simulator in WebAssembly beside the native program, in turns.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { TACTUS } from "../tests/page/service.mjs";

const ROOT = resolve(import.meta.dirname, "../..");
/** Long runs, so that the start of the native program counts little. */
const SCENARIO = "scenarios/bench-two-level.toml";
export const POLICIES = ["edf", "credit", "cfs"];

/** Returns the speed of the module as a part of that of the native program. */
export function speed(module, policy) {
  const { simulate } = createRequire(import.meta.url)(resolve(module));
  const scenario = readFileSync(resolve(ROOT, SCENARIO), "utf8");
  const request = JSON.stringify({ name: SCENARIO, scenario, policies: [policy] });
  const timed = (run) => {
    const from = performance.now();
    run();
    return performance.now() - from;
  };
  const native = () => {
    const args = ["sim", SCENARIO, "--json", "--policy", policy];
    const { status, stderr } = spawnSync(TACTUS, args, { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 28 });
    if (status !== 0) throw new Error(stderr);
  };
  // The first run compiles the module.
  simulate(request, () => {});
  return timed(native) / timed(() => simulate(request, () => {}));
}
