// The worker of the simulator. It runs one call at a time and blocks meanwhile, so the page ends it to cancel a run.

import { initSync, policies, preview, simulate } from "tactus-module";
import type { Answer, Call } from "./request";

const answer = (message: Answer): void => self.postMessage(message);

function result(call: Exclude<Call, { module: WebAssembly.Module }>): string {
  if ("run" in call) {
    return simulate(call.run, (now, end) => answer({ id: call.id, progress: [now, end] }));
  }
  return "preview" in call ? preview(call.preview) : policies();
}

self.onmessage = ({ data: call }: MessageEvent<Call>): void => {
  if ("module" in call) {
    initSync({ module: call.module });
    return;
  }
  const { id } = call;
  try {
    answer({ id, done: result(call) });
  } catch (error) {
    // The module throws its complaints as text. Every other exception is a trap: the module must not be used again.
    answer(typeof error === "string" ? { id, refused: error } : { id, trapped: String(error) });
  }
};
