import { useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { VIEWS, print, type View } from "./address";
import { ChangesView } from "./changes-view";
import { CpusView } from "./cpus-view";
import { count, percent } from "./quantity";
import { HelpDialog, isHelpOpen } from "./help-dialog";
import { HistoryView } from "./history-view";
import { THEMES, theme, type Theme } from "./settings";
import { address, arrangement, caller, connection, hasGap, host, rows, sampled, view } from "./store";
import { grantedPart } from "./rows";
import { TimelineView } from "./timeline-view";
import { VmsView } from "./vms-view";

const TITLES: Record<View, string> = {
  vms: "VMs",
  cpus: "CPUs",
  history: "History",
  timeline: "Timeline",
  changes: "Changes",
};

export function App() {
  return (
    <>
      <header class="top">
        <h1>Tactus</h1>
        <nav aria-label="Views">
          {VIEWS.map((name) => (
            <ViewLink key={name} name={name} />
          ))}
        </nav>
        <Summary />
        <Tools />
      </header>
      <Banners />
      <main class={`view view-${view.value}`} data-stale={connection.value.is === "lost" ? "" : undefined}>
        <h2 class="hidden">{TITLES[view.value]}</h2>
        <CurrentView />
      </main>
      <HelpDialog />
    </>
  );
}

function ViewLink({ name }: { name: View }) {
  const follow = (event: MouseEvent) => {
    // With a key, the browser opens the link in another tab.
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    view.value = name;
  };
  const href = print({ ...address.value, view: name }) || "?";
  return (
    <a href={href} aria-current={view.value === name ? "page" : undefined} onClick={follow}>
      {TITLES[name]}
    </a>
  );
}

function CurrentView() {
  switch (view.value) {
    case "vms":
      return <VmsView />;
    case "cpus":
      return <CpusView />;
    case "history":
      return <HistoryView />;
    case "timeline":
      return <TimelineView />;
    case "changes":
      return <ChangesView />;
  }
}

/** The host in one line: its CPUs, what is promised, and the VMs by state. */
function Summary() {
  const text = useComputed(() => {
    arrangement.value;
    sampled.value;
    const there = host.value;
    if (!there) return "";
    const vms = Array.from(rows.values(), ({ vm }) => vm.peek());
    const promised = vms.reduce((sum, vm) => sum + (grantedPart(vm) ?? 0), 0);
    const states = new Map<string, number>();
    for (const { state } of vms) if (state.phase !== "none") states.set(state.phase, (states.get(state.phase) ?? 0) + 1);
    const most = there.promisable_percent === undefined ? "" : ` of ${percent((there.cpus * there.promisable_percent) / 100)}`;
    const parts = [`${there.cpus} CPUs`, `${percent(promised)}${most} promised`, `${count(vms.length)} VMs`];
    for (const [state, number] of states) parts.push(`${number} ${state}`);
    return parts.join(" · ");
  });
  return <p class="summary">{text}</p>;
}

function Tools() {
  const by = caller.value;
  return (
    <div class="tools">
      <span class="connection" data-is={connection.value.is}>
        {connection.value.is}
      </span>
      {by && (
        <span class="caller" title={`You are ${by.name}, with the role ${by.role}`}>
          {by.name} ({by.role})
        </span>
      )}
      <select
        aria-label="Theme"
        value={theme.value}
        onChange={(event) => (theme.value = event.currentTarget.value as Theme)}
      >
        {THEMES.map((name) => (
          <option key={name} value={name}>
            {name === "auto" ? "system theme" : name}
          </option>
        ))}
      </select>
      <button type="button" aria-label="Help" aria-keyshortcuts="?" onClick={() => (isHelpOpen.value = true)}>
        ?
      </button>
    </div>
  );
}

function Banners() {
  const is = connection.value;
  const there = host.value;
  return (
    <div class="banners" role="status">
      {is.is === "lost" && (
        <Banner kind="bad">
          The connection to the service was lost at {new Date(is.since).toLocaleTimeString("en-GB")}: {is.reason}. All
          values are from that time. The page connects again.
        </Banner>
      )}
      {there && there.core === undefined && (
        <Banner kind="bad">The service has no core, so no promise is kept{there.reason ? `: ${there.reason}` : ""}.</Banner>
      )}
      {hasGap.value && (
        <Banner kind="warn">
          Some changes are missing in the list of changes: the service no longer has them.{" "}
          <button type="button" onClick={() => (hasGap.value = false)}>
            Hide
          </button>
        </Banner>
      )}
      {there?.warnings.map((warning) => (
        <Banner key={warning} kind="warn">
          {warning}
        </Banner>
      ))}
    </div>
  );
}

function Banner({ kind, children }: { kind: "bad" | "warn"; children: ComponentChildren }) {
  return <p class={`banner ${kind}`}>{children}</p>;
}
