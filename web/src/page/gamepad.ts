// A gamepad as the control of a promise (VSched 2005, section 7): the stick changes slice and period, and the gamepad rumbles
// while the promise is impossible.

import { effect } from "@preact/signals";
import { shownValue } from "./draft";
import { apply, basis, draft, edit, isEditable, revert, verdict } from "./editor";
import { PERIOD, SLICE, exactDuration, readDuration, twoDigits, type Range } from "./quantity";

/** A deflection below this is the play of a stick at rest. */
const DEAD = 0.15;
/** Change at full deflection: a factor of 10 in 1.5 s. */
const FACTOR_PER_S = 10 ** (1 / 1.5);
/** Interval between two changes, and between two effects. Unit: ms. */
const STEP_MS = 50;
const RUMBLE_MS = 300;
/** Buttons of the standard gamepad (W3C Gamepad, section 13). */
const APPLY = 0;
const REVERT = 1;

/** Returns the factor of a deflection from -1 to 1 over some time. */
export function factor(deflection: number, ms: number): number {
  if (Math.abs(deflection) < DEAD) return 1;
  const strength = Math.sign(deflection) * ((Math.abs(deflection) - DEAD) / (1 - DEAD));
  return FACTOR_PER_S ** ((strength * ms) / 1000);
}

let pressed = new Set<number>();
let lastRumble = 0;
/** Exact values between the steps: a slow deflection adds up. Unit: ns. */
const exact = new Map<string, number>();

/** Follows gamepads as long as one is connected. */
export function followGamepads(): void {
  let timer = 0;
  const begin = () => {
    timer ||= window.setInterval(step, STEP_MS);
  };
  window.addEventListener("gamepadconnected", begin);
  window.addEventListener("gamepaddisconnected", () => {
    if (present().length > 0) return;
    clearInterval(timer);
    timer = 0;
  });
  if (present().length > 0) begin();
  effect(() => {
    if (isImpossible()) rumble();
  });
}

function present(): Gamepad[] {
  return "getGamepads" in navigator ? navigator.getGamepads().filter((pad) => pad !== null) : [];
}

function isImpossible(): boolean {
  const now = verdict.value;
  return now.is === "wrong" || (now.is === "answered" && !now.isOutdated && now.answers.some(({ problem }) => problem));
}

function step(): void {
  if (document.hidden || !isEditable.peek()) return;
  for (const pad of present()) {
    const [x = 0, y = 0] = pad.axes;
    const isMoved = turn("slice", factor(-y, STEP_MS), SLICE, 2e6);
    const isMovedToo = turn("period", factor(x, STEP_MS), PERIOD, 10e6);
    if ((isMoved || isMovedToo) && isImpossible()) rumble();
    press(pad);
  }
}

/** Multiplies a duration of the draft. */
function turn(field: "slice" | "period", by: number, range: Range, usual: number): boolean {
  if (by === 1) {
    exact.delete(field);
    return false;
  }
  const text = shownValue(field, draft.peek(), basis.peek().map(({ desired }) => desired));
  const read = readDuration(text ?? "", field, "2ms");
  const before = exact.get(field) ?? ("value" in read ? read.value : usual);
  const next = Math.min(Math.max(before * by, range.least), range.most);
  exact.set(field, next);
  edit({ promise: true, [field]: exactDuration(twoDigits(next, range)) });
  return true;
}

function press({ buttons }: Gamepad): void {
  const now = new Set(buttons.flatMap(({ pressed }, at) => (pressed ? [at] : [])));
  const isNew = (button: number) => now.has(button) && !pressed.has(button);
  if (isNew(APPLY)) void apply();
  if (isNew(REVERT)) revert();
  pressed = now;
}

function rumble(): void {
  if (performance.now() - lastRumble < RUMBLE_MS) return;
  lastRumble = performance.now();
  for (const { vibrationActuator } of present()) {
    // A gamepad without motors refuses.
    void vibrationActuator
      ?.playEffect("dual-rumble", { duration: 150, strongMagnitude: 0.7, weakMagnitude: 0.4 })
      .catch(() => undefined);
  }
}
