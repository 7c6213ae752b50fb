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
    <dialog ref={dialog} aria-labelledby="keys" onClose={() => (isHelpOpen.value = false)}>
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
