// The log of changes. Each change can be undone, unless another one has followed.

import { useSignal } from "@preact/signals";
import { type Desired, type HostEvent, Refused, set } from "./api";
import { changes, mayChange, vms } from "./store";
import { asked } from "./table";

const text = (desired: Desired | undefined) => {
  if (!desired) return "–";
  const vm = { desired } as Parameters<typeof asked>[0];
  return `${asked(vm)}${desired.paused ? " (paused)" : ""}`;
};

export function ChangeLog() {
  const message = useSignal("");
  const undo = async (change: HostEvent) => {
    const vm = vms.value.get(change.vm ?? "");
    if (!vm || !change.before) return;
    try {
      await set({ vm: { ...vm, generation: change.generation ?? vm.generation }, desired: change.before, reason: "page: undo" });
      message.value = `The change of ${vm.name} is undone.`;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const isLater = error.problem.status === 412;
      message.value = isLater ? `${vm.name} was changed again; undo the later change first.` : error.problem.detail;
    }
  };
  const isLatest = (change: HostEvent) => vms.value.get(change.vm ?? "")?.generation === change.generation;
  return (
    <section aria-label="changes">
      <p aria-live="polite" class="note">
        {message.value || "The changes since the start of the service, the latest first."}
      </p>
      <table>
        <thead>
          <tr>
            <th scope="col">time</th>
            <th scope="col">VM</th>
            <th scope="col">by</th>
            <th scope="col">before</th>
            <th scope="col">after</th>
            {mayChange.value && <th scope="col" />}
          </tr>
        </thead>
        <tbody>
          {changes.value.map((change) => (
            <tr key={change.number}>
              <td>{new Date(change.at_ms).toLocaleTimeString()}</td>
              <th scope="row">{vms.value.get(change.vm ?? "")?.name ?? change.vm}</th>
              <td>{change.by}</td>
              <td>{text(change.before)}</td>
              <td>{text(change.desired)}</td>
              {mayChange.value && (
                <td>
                  {isLatest(change) && change.by?.match(/^(uid|cert):/) && (
                    <button type="button" onClick={() => void undo(change)}>
                      Undo
                    </button>
                  )}
                </td>
              )}
            </tr>
          ))}
          {changes.value.length === 0 && (
            <tr>
              <td colSpan={6} class="empty">
                No VM was changed.
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </section>
  );
}
