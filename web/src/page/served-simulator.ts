// The simulator of the preview, which the service has beside the page.

import { Cancelled, Simulator } from "../simulator/simulator";
import { served } from "../simulator/source";
import { type Prediction, simulator } from "./preview";

const [WORKER, MODULE] = ["simulator.js", "simulator.wasm"];

/** Offers previews, if the program has the simulator. The module is compiled for the first preview. */
export async function offerPreviews(): Promise<void> {
  const reply = await fetch(WORKER, { method: "HEAD" }).catch(() => undefined);
  if (!reply?.ok) return;
  const runs = new Simulator(served(WORKER, MODULE));
  const preview = (request: object): Promise<Prediction> =>
    runs.preview<Prediction>(request).catch((reason: unknown) => {
      if (reason instanceof Cancelled) return new Promise<Prediction>(() => {});
      throw reason;
    });
  simulator.value = { preview };
}
