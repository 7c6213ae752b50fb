// The playground of the book. `simulator.js`, a script of the same page, has the module.

import { render } from "preact";
import { type Embedded, embedded } from "../simulator/source";
import { Simulator } from "../simulator/simulator";
import { fromHash } from "./link";
import { Playground } from "./playground";
import { inputs, start } from "./session";
import "./playground.css";

declare global {
  var tactusSimulator: Embedded | undefined;
}

/** Takes the inputs of the address, if it has any. */
async function follow(): Promise<void> {
  const found = await fromHash(location.hash);
  if (found) {
    inputs.value = found;
  }
}

async function main(): Promise<void> {
  const place = document.getElementById("playground-app");
  const parts = globalThis.tactusSimulator;
  if (!place || !parts) {
    return;
  }
  await follow();
  addEventListener("hashchange", () => void follow());
  // The book turns pages with the arrow keys, and searches with `/` and `s`.
  place.addEventListener("keydown", (event) => event.stopPropagation());
  place.replaceChildren();
  render(<Playground />, place);
  await start(new Simulator(embedded(parts)));
}

void main();
