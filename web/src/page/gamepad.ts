// A gamepad or a joystick: one axis moves the slice, the other the period, and it rumbles if the wish is impossible.

import { type Draft, PERIOD, SLICE } from "./draft";
import { fromSlider, parseTime, STEPS, time, toSlider } from "./units";

// Deflection below which a stick counts as centred, and steps of a slider in a second at full deflection.
const DEAD = 0.15;
const SPEED = 240;
// Minimum time between two values, so that a live change comes at most ten times a second. Unit: ms.
const PAUSE = 100;
// Minimum time between two rumbles. Unit: ms.
const RUMBLE = 600;

// Moves a value of a draft by steps of its slider.
function move(draft: Draft, name: "slice" | "period", steps: number): void {
  const [least, most] = name === "slice" ? SLICE : PERIOD;
  const now = parseTime(draft.fields.peek()[name]);
  const from = typeof now === "number" ? toSlider(Math.min(most, Math.max(least, now)), least, most) : 0;
  const to = Math.min(STEPS, Math.max(0, from + Math.round(steps)));
  if (to !== from) draft.edit({ isPromised: true, [name]: time(fromSlider(to, least, most)) });
}

// Lets a gamepad steer a draft until the returned function is called.
export function steer(draft: Draft): () => void {
  let frame = 0;
  let [lastMove, lastRumble] = [performance.now(), 0];
  const look = (at: number) => {
    frame = requestAnimationFrame(look);
    const pad = navigator.getGamepads?.().find((pad) => pad !== null && pad.connected);
    if (!pad || at - lastMove < PAUSE) return;
    const elapsed = Math.min(at - lastMove, 3 * PAUSE) / 1_000;
    lastMove = at;
    const [across = 0, along = 0] = pad.axes;
    if (Math.abs(across) > DEAD) move(draft, "period", across * SPEED * elapsed);
    // Forward is more CPU time.
    if (Math.abs(along) > DEAD) move(draft, "slice", -along * SPEED * elapsed);
    const isRefused = draft.verdict.peek().kind === "refused";
    if (isRefused && Math.max(Math.abs(across), Math.abs(along)) > DEAD && at - lastRumble > RUMBLE) {
      lastRumble = at;
      const effect = { duration: 200, strongMagnitude: 0.8, weakMagnitude: 0.4 };
      // Not every gamepad has motors.
      void pad.vibrationActuator?.playEffect("dual-rumble", effect).catch(() => undefined);
    }
  };
  frame = requestAnimationFrame(look);
  return () => cancelAnimationFrame(frame);
}
