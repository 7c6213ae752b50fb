// The editor of the scenario: TOML, with complaints as underlines.

import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { StreamLanguage, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { toml } from "@codemirror/legacy-modes/mode/toml";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Complaint } from "../simulator/request";
import * as scenarios from "./scenarios";
import { change, complaints, inputs } from "./session";

/** Returns whether a complaint is about the text in the editor. */
export function isAboutScenario(complaint: Complaint): boolean {
  return complaint.parts.length > 0 && complaint.place.startsWith(`${scenarios.path(inputs.value.scenario)}:`);
}

function diagnostics(all: Complaint[], length: number): Diagnostic[] {
  const inside = (at: number) => Math.min(at, length);
  return all.filter(isAboutScenario).flatMap(({ reason, remedy, parts }) =>
    parts.slice(0, 1).map((part) => ({
      from: inside(part.from),
      to: inside(part.to),
      severity: "error" as const,
      message: remedy ? `${reason}\nhelp: ${remedy}` : reason,
    })),
  );
}

/** Keys of the editor. Escape, then Tab leaves the editor, as in all editors with CodeMirror. */
const KEYS = keymap.of([
  ...defaultKeymap,
  ...historyKeymap,
  ...lintKeymap,
  { key: "Tab", run: indentMore, shift: indentLess },
]);

function created(parent: HTMLElement): EditorView {
  const changed = EditorView.updateListener.of((update) => {
    if (update.docChanged) {
      change({ text: update.state.doc.toString() });
    }
  });
  const label = EditorView.contentAttributes.of({
    "aria-label": "Scenario. Press Escape, then Tab to leave the editor.",
    spellcheck: "false",
    tabindex: "0",
  });
  const extensions = [
    lineNumbers(),
    lintGutter(),
    history(),
    drawSelection(),
    bracketMatching(),
    highlightActiveLine(),
    EditorView.lineWrapping,
    StreamLanguage.define(toml),
    syntaxHighlighting(classHighlighter),
    KEYS,
    changed,
    label,
  ];
  return new EditorView({ parent, state: EditorState.create({ doc: inputs.peek().text, extensions }) });
}

let view: EditorView | undefined;

/** Moves the cursor to the main part of a complaint. */
export function goTo(complaint: Complaint): void {
  const part = complaint.parts[0];
  if (view && part) {
    view.dispatch({ selection: { anchor: Math.min(part.from, view.state.doc.length) }, scrollIntoView: true });
    view.focus();
  }
}

export function Editor() {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const editor = created(place.current!);
    view = editor;
    const stops = [
      effect(() => {
        const { text } = inputs.value;
        const present = editor.state.doc.toString();
        if (text !== present) {
          editor.dispatch({ changes: { from: 0, to: present.length, insert: text } });
        }
      }),
      effect(() => {
        const found = diagnostics(complaints.value, editor.state.doc.length);
        editor.dispatch(setDiagnostics(editor.state, found));
      }),
    ];
    return () => {
      stops.forEach((stop) => stop());
      editor.destroy();
    };
  }, []);
  return <div class="editor" ref={place} />;
}
