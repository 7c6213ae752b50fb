import { Comparison } from "./comparison";
import { apply, basis, conflicts, verdict, isApplying, isDirty, isEditable, isHeld, isLive, rebase, revert, select, vms } from "./editor";
import { PromiseFields, ShareFields } from "./fields";
import { percent, shortDuration } from "./quantity";
import { cost, deliveredPart, desiredText, efficiency, grantedPart } from "./rows";
import { price } from "./settings";
import { caller, rows } from "./store";
import { VerdictText } from "./verdict-text";
import type { Vm } from "./api";

/** The selected VMs: what is known of them, and the draft of what is desired. */
export function EditorPane() {
  const all = basis.value;
  const [first] = all;
  const title = all.length === 1 && first ? first.name : `${all.length} VMs`;
  return (
    <aside class="editor" aria-label={`Editor: ${title}`}>
      <header>
        <h2>{title}</h2>
        <button type="button" onClick={() => select([])} aria-label="Close the editor" aria-keyshortcuts="Escape">
          Close
        </button>
      </header>
      {all.length === 0 && <p class="nothing">The selected VM does not run, and nothing is desired for it.</p>}
      {all.length > 1 && <Members all={all} />}
      {isEditable.value ? <Form /> : all.length > 0 && caller.value && <ReadOnly />}
      {all.length === 1 && <Comparison />}
      {all.length === 1 && <Details />}
    </aside>
  );
}

function ReadOnly() {
  const role = caller.value?.role;
  return <p class="note">{role === "view" ? "Your role only reads." : "Your role may not change all of these VMs."}</p>;
}

function Details() {
  const [vm] = vms.value;
  if (!vm) return null;
  const row = rows.get(vm.id);
  row?.sampled.value;
  const recent = row?.samples.recent();
  const { measured, state, desired } = vm;
  const delivered = deliveredPart(recent);
  const used = efficiency(vm, recent);
  const priced = cost(vm, price.value);
  const facts: [string, string | false | undefined][] = [
    ["Id", vm.id !== vm.name && vm.id],
    ["Program", [vm.kind, vm.process && `pid ${vm.process.pid}, user ${vm.process.user}`].filter(Boolean).join(", ")],
    ["Desired", desiredText(desired) + (vm.source && vm.source !== "client" ? ` (from the ${vm.source})` : "")],
    ["State", state.phase + (state.mechanism ? `, by ${state.mechanism}` : "")],
    ["Reason", state.reason],
    ["Remedy", state.remedy],
    ["Missed", measured.judged > 0 && `${measured.missed} of ${measured.judged} judged periods`],
    ["Lacked", measured.missed > 0 && `${shortDuration(measured.short_ns / measured.missed)} per missed period`],
    ["Delivered", delivered !== undefined && `${percent(delivered)} of the time due`],
    ["Efficiency", used !== undefined && `${percent(used)} of ${percent(grantedPart(vm) ?? 0)} used`],
    ["Cost", priced !== undefined && `${priced.toFixed(4)} per hour`],
  ];
  return (
    <dl class="facts">
      {facts.map(([name, value]) => value && (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Members({ all }: { all: readonly Vm[] }) {
  return (
    <ul class="members">
      {all.map(({ id, name, desired }) => (
        <li key={id}>
          <b>{name}</b> {desiredText(desired)}
        </li>
      ))}
    </ul>
  );
}

function Form() {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    void apply();
  };
  return (
    <form onSubmit={submit} noValidate>
      <PromiseFields />
      <ShareFields />
      <div class="actions">
        <button type="submit" class="main" disabled={!isDirty.value || isApplying.value || verdict.value.is === "wrong"}>
          {isApplying.value ? "Applying" : "Apply"}
        </button>
        <button type="button" onClick={revert} disabled={!isDirty.value} aria-keyshortcuts="Escape">
          Revert
        </button>
        <label class="switch" title="Each input changes the VM at once, at most ten times a second">
          <input
            type="checkbox"
            role="switch"
            checked={isLive.value}
            onChange={(event) => (isLive.value = event.currentTarget.checked)}
          />
          Live
        </label>
      </div>
      {isHeld.value && <p class="problem">The draft is not applied. Apply or revert it before you select other VMs.</p>}
      <Conflicts />
      <VerdictText />
    </form>
  );
}

function Conflicts() {
  const all = conflicts.value;
  if (all.length === 0 || isApplying.value || isLive.value) return null;
  return (
    <div class="problem" role="alert">
      {all.map(({ id, name, desired }) => (
        <p key={id}>
          {name} was changed by another client: now {desiredText(desired)}.
        </p>
      ))}
      <button type="button" onClick={revert}>
        Reload, drop the draft
      </button>
      <button type="button" onClick={rebase}>
        Keep the draft
      </button>
    </div>
  );
}
