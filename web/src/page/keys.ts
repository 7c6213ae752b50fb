// Keys of the whole page. Keys of a field belong to the field.

import { VIEWS } from "./address";
import { isHelpOpen } from "./help-dialog";
import { isDirty, revert, select } from "./editor";
import { selected, view } from "./store";

export const KEYS: [keys: string, meaning: string][] = [
  ["1 … 5", "show VMs, CPUs, History, Timeline, Changes"],
  ["/", "search VMs"],
  ["↑ ↓, j k", "go to the VM above or below"],
  ["Enter", "open the VM; in the editor: apply"],
  ["x", "select the VM as well, to edit several"],
  ["e", "go to the slice in the editor"],
  ["Esc", "revert the draft; without a draft: close the editor"],
  ["← →, + −", "move and zoom the timeline"],
  ["?", "show these keys"],
];

export function listenForKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isHelpOpen.peek()) return;
    if (event.key === "Escape") return escape(event);
    if (isTyped(event.target)) return;
    const number = VIEWS[Number(event.key) - 1];
    if (number) view.value = number;
    else if (event.key === "?") isHelpOpen.value = true;
    else if (event.key === "/") focus(event, "#search");
    else if (event.key === "e") focus(event, "#slice");
    else if (event.key === "j" || event.key === "ArrowDown") move(event, 1);
    else if (event.key === "k" || event.key === "ArrowUp") move(event, -1);
    else if (event.key === "x") (document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]") as HTMLElement | null)?.click();
  });
}

function escape(event: KeyboardEvent): void {
  if (isDirty.peek()) {
    revert();
    event.preventDefault();
  } else if (event.target instanceof HTMLElement && event.target.id === "search") event.target.blur();
  else if (selected.peek().length > 0 && view.peek() === "vms") {
    const [first] = selected.peek();
    select([]);
    document.querySelector<HTMLElement>(`tr[data-id="${CSS.escape(first ?? "")}"] .open`)?.focus();
  }
}

function isTyped(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input:not([type=checkbox]), select, textarea, canvas");
}

function focus(event: KeyboardEvent, selector: string): void {
  const field = document.querySelector<HTMLInputElement>(selector);
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
}

/** Moves the focus in the list of VMs. */
function move(event: KeyboardEvent, by: number): void {
  const all = [...document.querySelectorAll<HTMLElement>("tbody .open")];
  if (all.length === 0) return;
  event.preventDefault();
  const at = all.indexOf(document.activeElement?.closest("tr")?.querySelector<HTMLElement>(".open") ?? document.body);
  all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)]?.focus();
}
