// Settings of the browser: theme and price.

import { effect, signal, type Signal } from "@preact/signals";

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

export const theme = kept<Theme>("theme", "auto", (text) => THEMES.find((theme) => theme === text));
/** Price of an hour of a CPU, in any currency. */
export const price = kept("price", 0, (text) => (Number(text) >= 0 ? Number(text) : undefined));

/** Returns a signal whose value the browser keeps. */
function kept<T extends string | number>(name: string, usual: T, read: (text: string) => T | undefined): Signal<T> {
  const key = `tactus-${name}`;
  let before: string | null = null;
  try {
    before = localStorage.getItem(key);
  } catch {
    // A browser may refuse to store anything.
  }
  const value = signal<T>((before === null ? undefined : read(before)) ?? usual);
  value.subscribe((now) => {
    try {
      localStorage.setItem(key, String(now));
    } catch {
      // The setting then ends with the tab.
    }
  });
  return value;
}

/** Whether the page is dark, for pictures on canvases. */
export const isDark = signal(false);

/** Applies the theme, now and when it changes. */
export function showTheme(): void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    isDark.value = theme.value === "dark" || (theme.value === "auto" && system.matches);
    document.documentElement.dataset["theme"] = isDark.value ? "dark" : "light";
  };
  effect(show);
  system.addEventListener("change", show);
}

/** Returns a color of the theme, for a canvas. */
export function color(name: string): string {
  isDark.value;
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
