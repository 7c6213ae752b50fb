import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { KEYS } from "./keys";

export const isHelpOpen = signal(false);

export function HelpDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = isHelpOpen.value;
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  return (
    <dialog ref={dialog} aria-label="Help" onClose={() => (isHelpOpen.value = false)}>
      <h2>Words</h2>
      <p>
        A <b>promise</b> is CPU time that a VM gets in every period: 2ms in 10ms is a fifth of a CPU, and never later than 10 ms. The
        part of the host that keeps promises refuses one that does not fit. A period is <b>missed</b> if the VM wanted the time and
        did not get it. A VM without a promise shares the rest with all others, by <b>weight</b>. A <b>soft</b> promise may use more
        than its slice where nothing else wants the CPU; a <b>hard</b> one, and a <b>cap</b>, may not. 100 % is one CPU.
      </p>
      <h2 id="keys">Keys</h2>
      <dl class="keys">
        {KEYS.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>{keys}</dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <h2>Gamepad</h2>
      <p>
        The left stick changes the promise of the selected VM: up and down the slice, right and left the period. The lower
        button applies, the right button reverts. The gamepad rumbles while the promise is impossible.
      </p>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
