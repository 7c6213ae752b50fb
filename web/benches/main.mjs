// The page and the simulator in a browser, as users see them: the benchmark of `cargo xtask page --bench`. Needs root, and a
// quiet machine.
//
//   node benches/main.mjs MODULE [RUNS]

import { repeat, report } from "./figures.mjs";
import { applyToScreen, sliderToPreview } from "./latency.mjs";
import { POLICIES, speed } from "./simulator.mjs";
import { workOfUpdates } from "./updates.mjs";

const [module, runs = "3"] = process.argv.slice(2);
const measured = (measure) => repeat(Number(runs), measure);

report("work of the page for an update of 100 VMs, 95 of 100", "ms", await measured(workOfUpdates), { most: 8 });
report("slider to preview with 10 VMs, 95 of 100", "ms", await measured(sliderToPreview), { most: 50 });
report("Enter to the changed grant on the screen, 95 of 100", "ms", await measured(applyToScreen), { most: 100 });
for (const policy of POLICIES) {
  const figures = await measured(() => speed(module, policy));
  report(`speed in WebAssembly beside the native program, ${policy}`, "", figures, { least: 0.4 });
}
