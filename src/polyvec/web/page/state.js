// What the page shows, as its address: every state has a URL, and going back goes back.

/**
 * @typedef {object} State
 * @property {number | null} row       the row one asks about
 * @property {string | null} id        its id, which stays when a collection is published anew in another order
 * @property {string} q                the text one asks about
 * @property {number | null} hit       the result whose details are open
 * @property {number} k                how many results
 * @property {string} color            the field that colours the map; "" for none
 * @property {import("./store.js").Filters} filters   chosen values, or [low, high] of a number field
 * @property {number[] | null} view    centre x, y and zoom of the map; null shows all
 */

export const START_K = 20;
export const MOST_K = 500;

/**
 * @param {string} hash the part of the address after #
 * @param {string} color the field that colours unless the address says
 * @returns {State}
 */
export function readState(hash, color) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  /** @type {State["filters"]} */
  const filters = {};
  for (const [key, value] of given) if (key.startsWith("f.")) (filters[key.slice(2)] ??= []).push(value);
  const view = (given.get("view") ?? "").split(",").map(Number);
  return {
    row: readNumber(given.get("row")),
    id: given.get("id"),
    q: given.get("q") ?? "",
    hit: readNumber(given.get("hit")),
    k: Math.min(MOST_K, Math.max(1, readNumber(given.get("k")) ?? START_K)),
    color: given.get("color") ?? color,
    filters,
    view: view.length === 3 && view.every(Number.isFinite) && view[2] > 0 ? view : null,
  };
}

/**
 * @param {State} state
 * @param {string} color
 * @returns {string}
 */
export function writeState(state, color) {
  const out = new URLSearchParams();
  if (state.q) out.set("q", state.q);
  if (state.row !== null) out.set("row", String(state.row));
  if (state.id !== null) out.set("id", state.id);
  if (state.hit !== null) out.set("hit", String(state.hit));
  if (state.k !== START_K) out.set("k", String(state.k));
  if (state.color !== color) out.set("color", state.color);
  for (const [name, values] of Object.entries(state.filters)) for (const value of values) out.append(`f.${name}`, value);
  if (state.view) out.set("view", state.view.map((n) => Number(n.toPrecision(5))).join(","));
  const text = out.toString();
  return text ? `#${text}` : "";
}

/** @param {string | null} text @returns {number | null} */
function readNumber(text) {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}
