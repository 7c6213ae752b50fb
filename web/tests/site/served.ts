// A page of a server with the simulator: what `served.test.mjs` calls.

import { Cancelled, Simulator } from "../../src/simulator/simulator";
import { served } from "../../src/simulator/source";

const simulator = new Simulator(served("/worker.js", "/tactus.wasm"));
const scenario = (length: string) =>
  `name = "two"\ncpus = 1\nlength = "${length}"\n\n[[task]]\nname = "hog-{i}"\ncount = 2\nworkload = "hog"\n`;

Object.assign(globalThis, {
  /** Returns the runs of two policies, the number of policies, and the reason of a run that a newer run cancelled. */
  async use() {
    const long = simulator.run({ scenario: scenario("100000s"), policies: ["eevdf"] }).catch((reason) => reason);
    const policies = simulator.policies();
    await new Promise((resolve) => setTimeout(resolve, 300));
    const { json } = await simulator.run({ scenario: scenario("1s"), policies: ["eevdf", "edf"] });
    const refused = await simulator.run({ scenario: "cpus = 0" }).catch((complaints) => complaints);
    return {
      runs: JSON.parse(json).runs.length,
      policies: (await policies).length,
      isCancelled: (await long) instanceof Cancelled,
      refused: refused[0].place,
    };
  },
});
