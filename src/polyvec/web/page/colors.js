// Colours of points: a palette for categories, a ramp for numbers, one accent otherwise.

/** Twelve hues that stay apart on dark and on light ground; further values share a grey. */
const PALETTES = {
  dark: ["#7c8cff", "#34d0ba", "#ffb454", "#ff7a9c", "#8fd14f", "#c792ea", "#5cc8ff", "#ffd866", "#ff8f5c", "#4fe08a", "#e58bd9", "#a3b3cc"],
  light: ["#4453d6", "#0e9384", "#c77400", "#d1365f", "#4d8f14", "#8a4bb8", "#0f83c4", "#a38300", "#c9521a", "#12935a", "#b0409f", "#5f6f8a"],
};
const OTHER = { dark: "#5a647c", light: "#a2abbf" };
const RAMP = { dark: ["#3b2f8f", "#3f78c9", "#35b6a5", "#a6d95f", "#ffe76b"], light: ["#2b1f75", "#2c62b5", "#1d9a8c", "#77b02c", "#e0a400"] };
const MISSING = 65535;

/** @returns {"dark" | "light"} */
export function theme() {
  return document.documentElement.dataset.theme === "light" ? "light" : "dark";
}

/** @param {string} name */
export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** @param {string} hex @returns {[number, number, number]} */
export function channels(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** @param {number} code */
export function categoryColor(code) {
  return PALETTES[theme()][code] ?? OTHER[theme()];
}

/** @param {number} part from 0 to 1 */
export function rampColor(part) {
  const stops = RAMP[theme()].map(channels);
  const at = Math.min(1, Math.max(0, part)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  const mixed = stops[i].map((c, j) => Math.round(c + (stops[i + 1][j] - c) * (at - i)));
  return `#${mixed.map((c) => c.toString(16).padStart(2, "0")).join("")}`;
}

/**
 * The numbers between which a field's colours change.
 * @param {import("./store.js").Field} field
 * @returns {[number, number]}
 */
export function rampOf(field) {
  return field.ramp ?? [field.low ?? 0, field.high ?? 1];
}

/**
 * A colour number for every point and the colours they stand for.
 * @param {import("./store.js").Field | undefined} field
 * @param {import("./store.js").Values | undefined} column
 * @param {number} count
 * @returns {{codes: Uint8Array, colors: string[]}}
 */
export function paint(field, column, count) {
  const codes = new Uint8Array(count);
  if (!field || !column) return { codes, colors: [token("--point")] };
  if (field.kind === "category") {
    const known = PALETTES[theme()].length;
    for (let i = 0; i < count; i++) codes[i] = column[i] === MISSING ? known : Math.min(column[i], known);
    return { codes, colors: [...PALETTES[theme()], OTHER[theme()]] };
  }
  const steps = 63;
  const [low, high] = rampOf(field);
  const span = high - low || 1;
  for (let i = 0; i < count; i++) {
    codes[i] = Number.isNaN(column[i]) ? steps + 1 : Math.round(Math.min(1, Math.max(0, (column[i] - low) / span)) * steps);
  }
  return { codes, colors: [...Array.from({ length: steps + 1 }, (_, i) => rampColor(i / steps)), OTHER[theme()]] };
}
