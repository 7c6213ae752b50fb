// The worker of the simulator. It runs one call at a time and blocks meanwhile, so the page ends it to cancel a run.

import { initSync, policies, simulate } from "tactus-module";
import type { Answer, Call } from "./request";

const answer = (message: Answer): void => self.postMessage(message);

self.onmessage = ({ data: call }: MessageEvent<Call>): void => {
  if ("module" in call) {
    initSync({ module: call.module });
    return;
  }
  const { id } = call;
  try {
    const done =
      "run" in call ? simulate(call.run, (now, end) => answer({ id, progress: [now, end] })) : policies();
    answer({ id, done });
  } catch (error) {
    // The module throws its complaints as text. Every other exception is a trap: the module must not be used again.
    answer(typeof error === "string" ? { id, refused: error } : { id, trapped: String(error) });
  }
};
