import type { Polled } from "./polled";

/** Why a view has no value, or no new one. `what` is the name of the values. */
export function Trouble({ polled, what }: { polled: Polled<unknown>; what: string }) {
  if (polled.isUnknown) return <p class="nothing">This service has no {what}. A newer version has.</p>;
  if (polled.problem) {
    return (
      <p class="problem" role="alert">
        The {what} cannot be read: {polled.problem.detail}
      </p>
    );
  }
  return polled.value === undefined ? <p class="nothing">Reading the {what}.</p> : null;
}
