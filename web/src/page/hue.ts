// The color of a VM: the same in every view.

import { isDark } from "./settings";

/** Okabe and Ito's colors, which readers with color blindness tell apart, darker on white. */
const LIGHT = ["#0072b2", "#b45309", "#007a5a", "#a3387d", "#8a6d00", "#3b6fb6", "#b3201c", "#555b63"];
const DARK = ["#56b4e9", "#e69f00", "#33b58c", "#d98cbf", "#e0d255", "#86b6f2", "#f28b82", "#b3bac3"];

const numbers = new Map<string, number>();

/** Returns the color of a VM. VMs get colors in the order in which they are first drawn. */
export function hue(id: string): string {
  const number = numbers.get(id) ?? numbers.size;
  numbers.set(id, number);
  const colors = isDark.value ? DARK : LIGHT;
  return colors[number % colors.length] ?? "#888888";
}
